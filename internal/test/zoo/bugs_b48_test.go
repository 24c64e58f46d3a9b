//go:build linux

package zoo

// keepLog lets raft keep a log that conflicts with a snapshot, and send it late snapshots: see B48b.
var (
	noRestart = patch{
		file: "cluster/internal/consensus/group.go",
		old:  "	remembered, err := strconv.ParseUint(",
		new:  "	if index > 0 {\n		return\n	}\n	remembered, err := strconv.ParseUint(",
	}
	lateSnapshots = patch{
		file: "cluster/internal/consensus/transport.go",
		old:  "return m.LastLogIndex <= t.settled()",
		new:  "return false",
	}
	// trustRaft believes raft's VerifyLeader.
	trustRaft = patch{
		file: "cluster/internal/consensus/read.go",
		old:  "	if err := r.confirm(servers, term, since); err != nil {\n",
		new:  "	_, _ = servers, since\n	if err := engine.VerifyLeader().Error(); err != nil {\n",
	}
)

// bugsFromB48 are bugs of hashicorp/raft v1.8.0 against which the cluster has guards. On a busy machine a bug may not show at
// once, so the tests are repeated.
var bugsFromB48 = []bug{
	{
		id: "B48a", what: "heartbeats change the term of a leader that is about to append", seen: "hashicorp/raft 695",
		plant: []patch{{
			file: "cluster/internal/consensus/transport.go",
			old:  "func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}",
			new:  "func (t *transport) SetHeartbeatHandler(f func(raft.RPC)) { t.inner.SetHeartbeatHandler(f) }",
		}},
		caught: []catch{
			{pkg: "cluster/internal/consensus", test: "TestADeposedLeaderAppendsNothingInTheTermOfItsSuccessor", args: repeated,
				sees: "entries with the same term and index"},
			{pkg: "cluster/internal/consensus", test: "TestHeartbeatsGoThroughTheMainLoop", sees: "a heartbeat arrived at the handler"},
		},
	},
	{
		id: "B48b", what: "a follower whose log conflicts with a snapshot gets it again and again", seen: "hashicorp/raft 697",
		plant: []patch{noRestart, lateSnapshots, {
			file: "cluster/internal/consensus/group.go",
			old:  "	if err := reconcile(g.o.Logs, g.o.Snapshots); err != nil {",
			new:  "	if err := error(nil); err != nil {",
		}, {
			file: "cluster/internal/consensus/group.go",
			old:  "g.o.FSM, g.logs), g.logs, ",
			new:  "g.o.FSM, g.logs), struct{ raft.LogStore }{g.logs}, ",
		}},
		caught: []catch{
			{pkg: "cluster/internal/consensus", test: "TestASnapshotReplacesALogThatConflicts", args: repeated, sees: "gets the snapshot again and again"},
			{pkg: "cluster/internal/nemesis", test: "TestAReplicaDoesNotRestoreSnapshotsForEver", args: repeated, sees: "restores snapshots for ever"},
		},
	},
	{
		id: "B48c", what: "the same, though the log is dropped after the snapshot", seen: "hashicorp/raft 697",
		plant: []patch{noRestart, lateSnapshots},
		caught: []catch{{
			pkg: "cluster/internal/consensus", test: "TestASnapshotReplacesALogThatConflicts", args: repeated, sees: "gets the snapshot again and again",
		}},
	},
	{
		id: "B48d", what: "a snapshot that arrives late takes the state back", seen: "hashicorp/raft",
		plant: []patch{lateSnapshots},
		caught: []catch{{
			pkg: "cluster/internal/consensus", test: "TestALateSnapshotChangesNothing", sees: "the state goes back",
		}},
	},
	{
		id: "B48e", what: "nonvoters and old acknowledgements confirm a leader, and reads are stale", seen: "hashicorp/raft's VerifyLeader",
		plant: []patch{trustRaft},
		caught: []catch{
			{pkg: "cluster/internal/consensus", test: "TestANonvoterDoesNotConfirmALeader", args: repeated, sees: "a stale read"},
			{pkg: "cluster/internal/consensus", test: "TestAnOldAcknowledgementDoesNotConfirmALeader", args: repeated, sees: "a stale read"},
			{pkg: "cluster/internal/nemesis", test: "TestOldAcknowledgementsVerifyNoReads", args: repeated, sees: "no order explains"},
		},
	},
	{
		id: "B48f", what: "a voter that missed a change of the members refuses the server that has all entries", seen: "hashicorp/raft",
		plant: []patch{{
			file: "cluster/internal/consensus/transport.go",
			old:  "	switch m := command.(type) {\n	case *raft.RequestVoteRequest:\n		m.ID = t.known(m.ID)",
			new:  "	if t != nil {\n		return\n	}\n	switch m := command.(type) {\n	case *raft.RequestVoteRequest:\n		m.ID = t.known(m.ID)",
		}},
		caught: []catch{{
			pkg: "cluster/internal/consensus", test: "TestAVoterThatMissedAChangeElectsAServerThatItDoesNotKnow", args: repeated,
			sees: "the voter refuses a stranger",
		}},
	},
	{
		id: "B48g", what: "entries count as durable when they are stored, and a power cut loses what was acknowledged", seen: "hashicorp/raft on a log that syncs later",
		plant: []patch{{
			file: "cluster/internal/consensus/logs.go",
			old:  "	if l.soon == nil || commit == 0 {",
			new:  "	if l.soon == nil || commit == 0 || l.leading != nil {",
		}, {
			file: "cluster/internal/consensus/logs.go",
			old:  "m.withheld == nil && m.logs.soon != nil {",
			new:  "m.withheld == nil && m.logs.soon != nil && m.ctx == nil {",
		}},
		caught: []catch{{
			pkg: "cluster/internal/consensus", test: "TestNothingIsCommittedThatIsNotDurableAtTheLeader", args: repeated, sees: "an early acknowledgement",
		}},
	},
}

// repeated runs a test until it fails.
const repeated = "-test.count=10 -test.failfast"
