package node

import (
	"errors"
	"runtime"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/logstore"
)

// raftStore is a group's log for raft. Raft v1.8.0 panics if it cannot read a committed entry or store a
// term, which would end the node with all its groups. raftStore ends raft's goroutine of this group
// instead. The log store has reported the failure by then, and the healer closes the rest of the group.
type raftStore struct{ *logstore.Group }

var (
	_ raft.LogStore          = raftStore{}
	_ raft.StableStore       = raftStore{}
	_ raft.MonotonicLogStore = raftStore{}
)

// GetLog implements raft.LogStore.
func (s raftStore) GetLog(index uint64, l *raft.Log) error {
	err := s.Group.GetLog(index, l)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		endInstead("github.com/hashicorp/raft.(*Raft).processLogs")
	}
	return err
}

// SetUint64 implements raft.StableStore.
func (s raftStore) SetUint64(key []byte, n uint64) error {
	err := s.Group.SetUint64(key, n)
	if err != nil {
		endInstead("github.com/hashicorp/raft.(*Raft).setCurrentTerm")
	}
	return err
}

// endInstead ends the goroutine, with its deferred calls, if it is in a function that would panic. Others handle the
// error. While raft is being made, the goroutine is that of the caller, and consensus returns the panic as an error.
func endInstead(function string) {
	pc := make([]uintptr, 32)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	panics := false
	for more := true; more; {
		var frame runtime.Frame
		if frame, more = frames.Next(); frame.Function == "github.com/hashicorp/raft.NewRaft" {
			return
		}
		panics = panics || strings.HasPrefix(frame.Function, function)
	}
	if panics {
		runtime.Goexit()
	}
}
