// Package machine is the state of one group's replica, in a SieveDB: the state machine, the snapshot
// store, and the reads of the group.
//
// A Machine implements raft.BatchingFSM and raft.ConfigurationStore. A batch of entries is one batch
// of the database, together with the index of the last one, and is written with db.Buffered: what survives
// a crash is the state after some entry, and the log has those that follow. An entry that was applied before
// is skipped. If an entry cannot be applied, or damage is found, the machine has failed: it applies
// nothing more, answers nothing, and Options.Failed is called once.
//
// # Snapshots
//
// The database is its own snapshot, as in Vault. Machine.Snapshots lists one snapshot, with the index, term and
// configuration of the present state. When raft takes a snapshot, the state is made durable, and nothing
// is copied; raft then deletes entries up to that index from its log. raft counts entries that it does not show to the
// machine, such as barriers, so the machine then records raft's index as applied. To send a snapshot,
// the machine makes a checkpoint, verifies its tables, and streams its files. If a table is damaged, the machine has
// failed, and the receiver refuses the stream, which has no end.
//
// raft does not say why it calls Create. A sink that is given to Persist belongs to a snapshot that
// is taken, and a sink with a Write to one that is received.
//
// # Directory
//
//	STATE          names the directory of the present state
//	state-000001   a database: the present state, or one that is being received
//	send-000002    a checkpoint that is being sent or backed up
//
// STATE is replaced by a rename. It is one line: an optional "creating ", the name, a space, and the CRC-32C of what is
// before that space, in 8 hexadecimal digits. "creating" says that no state was ever in use. Directories that STATE
// does not name are left from a crash, and Open removes them. If STATE is missing and there is a state, Open refuses.
//
// A received state is unpacked, checked, synced and opened before STATE names it. If that fails, the old state stays in
// force. If it is unknown whether STATE was replaced, the machine has failed, and both states stay until Open.
//
// # Stream
//
// Numbers are big-endian, and checksums are CRC-32C.
//
//	header   "SIEVEDST" | version (1) = 1 | files (4) | index (8) | term (8) | bytes of all files (8) | checksum (4)
//	file     length of name (1) | name | bytes (8) | checksum (4) | the bytes | their checksum (4)
//	trailer  "SIEVEDND" | bytes of the stream (8) | checksum of all before (4)
//
// A file's name must be one that a database has; it has no separators. A stream is refused as a whole with ErrStream.
//
// # Locks
//
// Machine.writing, then Machine.mu, then waiters.mu.
package machine
