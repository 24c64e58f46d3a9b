// Package consensus runs one raft group of this node by hashicorp/raft, with a small API, so that another
// engine could follow. It adds to raft v1.8.0 what a linearizable store needs, and keeps clear of its open bugs.
//
// # What it promises
//
//   - Propose never blocks. Entries that reach the log are in the order of the calls. At most
//     Options.MaxInFlight of them wait at a time.
//   - A proposal's error says what is known: see the table below.
//   - ReadIndex returns a point in the log that is at least as new as every write that was acknowledged, on
//     any node, before ReadIndex was called. The state machine reaches that point without further entries.
//   - OnLeadership sees each gain and loss of leadership, in order, with the right term.
//   - Close returns when the goroutines of the group have ended.
//
// # What the errors of a proposal mean
//
// Found in raft's source; a test holds each row that can be provoked.
//
//	raft says                         when                                          Wait returns
//	ErrNotLeader                      the main loop refused it before appending,    *kv.NotLeaderError
//	                                  as follower, candidate, or a leader that
//	                                  has removed itself
//	ErrLeadershipTransferInProgress   as above                                      *kv.NotLeaderError
//	ErrRaftShutdown, index 0          it was never handed to the main loop          kv.ErrClosed
//	ErrRaftShutdown, index > 0        it is committed, but not applied here         kv.ErrUnknown
//	ErrLeadershipLost                 appended here; others may have it             kv.ErrUnknown
//	ErrAbortedByRestore               not used by this package                      kv.ErrUnknown
//	an error of the log store         some of the batch may be on the disk          kv.ErrUnknown
//	nothing until the context ends    anything                                      kv.ErrUnknown
//	nothing, and the group is closed  anything                                      kv.ErrUnknown
//
// An entry in raft's channel that outlives a lost leadership is appended in the new term if this server leads again.
// The state machine must compare the entry's own term with the log's.
//
// # Guards
//
// Each has a test that fails without it: package internal/test/zoo removes the guards one after the other.
//
//   - Heartbeats go through the main loop (hashicorp/raft #695). Raft handles them on the transport's goroutine,
//     where they change the term while the main loop is about to append: the deposed leader then writes an
//     entry with the term of its successor. SetHeartbeatHandler is ignored.
//   - The log is dropped after InstallSnapshot (#697), because the log store must be monotonic. That is not
//     enough: raft keeps the index and term of its last entry in memory, and continues to reject what
//     follows the snapshot. If the two disagree after a snapshot, raft is restarted on its stores, which takes
//     milliseconds. The same check runs at the start, for a crash between the two steps.
//   - A snapshot that arrives late, when newer entries are committed here, is not installed. Raft would set the state
//     machine back and, with a monotonic store, drop entries that this replica has acknowledged.
//   - ReadIndex asks the other servers itself: see confirms. Raft's VerifyLeader counts those of nonvoters, and those of
//     heartbeats that were sent before the read began: a leader that was paused can verify itself by an
//     acknowledgement that waited in a socket.
//   - Entries are not pipelined, because raft's pipeline can block its shutdown for ever.
//   - The leader sends entries while its own disk writes them, and raft counts the leader as if they were durable
//     there. So an entry is not applied, announced or acknowledged before it is durable at the leader: see SoonDurable.
//   - A candidate can win the vote of a server whose configuration does not have the candidate as a voter yet. Raft
//     refuses such candidates, so a server that missed a change could keep a majority from electing anyone: see admit.
//   - Messages and votes are for a server, not for its address. Another server may use the address by now, without the
//     entries and votes of the first one. Raft sends its messages to an address, and stores a vote with the address of
//     the candidate instead of its ID: see transport.
//   - No leadership is transferred to a server whose replication pauses after failures: see TransferLeadership. Raft
//     would refuse writes until it has given up, and for ever if it is deposed while a second transfer waits.
//   - If only half of a vote is on the disk, it does not count: see voteStore.
//   - A leader that stalls while it sends a snapshot does not block the main loop of the receiver for ever.
package consensus
