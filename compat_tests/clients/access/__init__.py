"""What applications of each client may do with the least ACLs, and what they are told with one ACL less."""
