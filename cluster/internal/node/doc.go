// Package node runs the groups of one node of a cluster, and places the replicas of all groups on the cluster's nodes.
//
// # What it promises
//
//   - All nodes agree on one map: the nodes, and the number of groups and replicas. Group 0 stores it; each
//     node keeps a copy, and learns newer ones from a random other node about once a second.
//   - Each group gets the wanted number of voters, in different zones as far as possible, on the nodes with
//     the fewest replicas. The leader of group 0 plans that (plan.go); each step is a change of one
//     replica that the leader of its group makes, on the configuration that the plan is based on, and only for the
//     newest plan (mandate.go): a planner that was deposed changes nothing. Nothing is remembered between plans, so
//     another node can continue them.
//   - Only Create makes a cluster. A node without data joins one, or does not start (create.go).
//   - A replica has a vote only once it has caught up. A node that lost its log joins as another server of
//     raft ("incarnation"), because it has forgotten its votes.
//   - A replica whose state is damaged is taken out, gets a state from another replica, and returns. A node
//     whose log is damaged joins again. A node whose disk is full refuses writes and gives its
//     leaderships away. Health and INFO say so meanwhile.
//
// # Files
//
//	node.json      who the node is, which groups it has, and the newest map that it knows
//	log/           the log store of all groups (internal/logstore)
//	group-NNNN/    the state of a group (internal/machine)
//	*.new          a state that is being fetched
//	*.damaged      what a healed state or log was; it may be deleted
//	checkpoints/   what the command CHECKPOINT wrote
//	UNFINISHED     is there while the directory is made from a backup or recovered; the node does not start
//
// # Locks
//
// place.lifecycle, then Node.mu, place.mu, logs.mu or atlas.mu, of which none is held while another is
// taken, nor during calls to other nodes. place.lifecycle is held during a transfer of a state.
package node
