"""Every release of PySpark with the connector that `kwire.spark` names for it, tried against kwire (`__main__`)."""
