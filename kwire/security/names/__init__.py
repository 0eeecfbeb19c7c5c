"""Names of clients and the texts that configure them, read and written as Java does: distinguished names, the rules
that shorten TLS and Kerberos names, JAAS texts. Java's classes are the reference (`campaigns.security_names`)."""
