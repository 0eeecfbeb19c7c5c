"""A server of S3 on this machine (moto's), as a process of its own with its objects in memory."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

from harness.processes.ports import free_port
from harness.waiting import PATIENCE_S

KEY: Final = "kwire-tests"


class S3Server:
    """``environment`` is what S3's clients read their settings from. A context manager."""

    def __init__(self, home: Path, bucket: str = "backups") -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.bucket = bucket
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_REGION": "us-east-1",
        }
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        with (home / "s3.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.environment}
            )
        atexit.register(self.close)

    def __enter__(self) -> Self:
        import boto3
        from botocore.exceptions import EndpointConnectionError

        client = boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=KEY,
            region_name="us-east-1",
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                client.create_bucket(Bucket=self.bucket)
                break
            except EndpointConnectionError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        self.client = client
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and with it all objects."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
