"""The cluster: the metadata store, the image that each broker makes of it, the controller, and replication.

Sub-packages import downwards only: replication > controller > metadata > store.
"""
