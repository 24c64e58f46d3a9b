// Package cluster runs a node of a linearizable, replicated and sharded key-value server for the string commands of
// Redis Cluster's clients. The command sieved is this package with flags; programs can also run nodes in their own
// process:
//
//	o := cluster.Options{ID: "1", Dir: "d1"}
//	if err := cluster.Create(o); err != nil { // once, for the first node of a new cluster
//		log.Fatal(err)
//	}
//	node, err := cluster.Start(ctx, o)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer node.Close()
//	fmt.Println("redis-cli -c -u redis://" + node.Addr())
//
// # What it promises
//
// An acknowledged write is on the disks of a majority of the replicas of its group: it survives the loss
// of any minority. Reads and writes are linearizable, unless a connection sends READONLY; then its reads
// may be as old as Options.Timing.StaleBound. A write whose outcome cannot be known fails with an error that says so.
//
// A key belongs to one of 16,384 slots, as in Redis Cluster, and each slot to one of a fixed number of groups.
// Each group has replicas on several nodes; one of them leads. Clients of Redis Cluster find the leader by
// themselves. Commands on several keys, and MULTI, need keys of one slot: use tags, such as {user1}.
//
// The nodes of a cluster trust each other. Without TLS and without a secret a node listens on loopback only.
// The document docs/cluster.md has sizes, timeouts, and what happens when something fails.
package cluster
