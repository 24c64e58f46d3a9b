// Package replica runs commands on one group: it implements kv.Group over the group's state
// (internal/machine) and its replicated log (internal/consensus).
//
// # Writes
//
// The leader evaluates a command on the newest state: what is applied, under the writes that are on their way (the
// overlay). Evaluations happen one at a time, and each is proposed before the next one begins, so the log has them in
// the order of their evaluation. What is proposed is the batch that the command wrote, not the command: replicas apply
// bytes, and different versions of a program cannot disagree about what a command does.
//
// What makes that safe is that an entry counts only if it follows the entry before it in the same term
// (layout.Chain). So what a deposed leader evaluated never follows what others wrote, and nothing that was
// evaluated on an entry that is lost counts. After such a loss the leadership begins again.
//
// # Reads
//
// A linearizable read notes the index of the last committed entry, has a majority confirm that this
// node still leads, and waits until that entry is applied (Raft's dissertation, section 6.4).
//
// A command that wrote nothing but could have written has seen writes that are not confirmed yet, and not the committed
// state. So it is confirmed after its evaluation, in the term of its evaluation: a node that was
// deposed and leads again would answer without the writes of its successor.
//
// A stale read is answered from the applied state, if that is new enough: see freshness. Nobody asks for that before
// a client reads so.
//
// # Time
//
// Keys expire by a clock that the log carries: each entry has the leader's time, which never goes back within the
// log. A leader that finds a key expired by its own clock, but not by the log's, proposes an entry without writes,
// and a read is evaluated again after it. So all replicas, and all later leaders, agree that the key has expired.
//
// # Locks
//
// mu guards the leadership with its overlay and watches. It is held during evaluations, so these must not wait for
// anything but the disk, and end after Options.MaxEvaluation. Commands wait for it until their time is over, because
// the disk may be slow. No other lock is taken under it but those of the state.
package replica
