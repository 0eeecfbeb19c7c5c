package main

import (
	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
)

// Two topics by their prefix, one group: what a consumer needs.
func franzACLs() {
	admin := kadm.NewClient(franzClient())
	defer admin.Close()
	entries := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Allow("User:alice").AllowHosts("10.0.0.1").Topics(prefix).Groups(prefix).
			Operations(kadm.OpRead, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternPrefixed)
	}
	run("creating", func() {
		created, err := admin.CreateACLs(ctx, entries())
		check(err)
		expect("created", len(created), 4)
		for _, each := range created {
			check(each.Err)
		}
	})
	run("describing", func() {
		matching := kadm.NewACLs().AnyResource(prefix + "-1").Allow().AllowHosts().Deny().DenyHosts().
			Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternMatch)
		eventually("four entries", func() bool {
			described, err := admin.DescribeACLs(ctx, matching)
			check(err)
			number := 0
			for _, each := range described {
				check(each.Err)
				number += len(each.Described)
			}
			return number == 4
		})
	})
	run("deleting", func() {
		deleted, err := admin.DeleteACLs(ctx, entries())
		check(err)
		number := 0
		for _, each := range deleted {
			check(each.Err)
			number += len(each.Deleted)
		}
		expect("deleted", number, 4)
	})
}

func saramaACLs() {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, saramaConfig())
	check(err)
	defer admin.Close()
	resource := sarama.Resource{
		ResourceType: sarama.AclResourceTransactionalID, ResourceName: prefix, ResourcePatternType: sarama.AclPatternLiteral,
	}
	filter := sarama.AclFilter{
		ResourceType: sarama.AclResourceAny, ResourceName: &prefix, ResourcePatternTypeFilter: sarama.AclPatternMatch,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
	}
	run("creating", func() {
		entry := sarama.Acl{
			Principal: "User:alice", Host: "*", Operation: sarama.AclOperationWrite, PermissionType: sarama.AclPermissionDeny,
		}
		check(admin.CreateACLs([]*sarama.ResourceAcls{{Resource: resource, Acls: []*sarama.Acl{&entry}}}))
	})
	run("describing", func() {
		eventually("the entry", func() bool {
			listed, err := admin.ListAcls(filter)
			check(err)
			return len(listed) == 1 && listed[0].Resource == resource
		})
	})
	run("deleting", func() {
		deleted, err := admin.DeleteACL(filter, false)
		check(err)
		expect("deleted", len(deleted), 1)
	})
}
