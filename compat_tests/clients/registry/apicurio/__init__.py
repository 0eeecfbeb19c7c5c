"""The same calls at kwire's registry and at Apicurio Registry's Confluent interface."""
