package node

import (
	"errors"
	"fmt"
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
// error.
func endInstead(function string) {
	pc := make([]uintptr, 32)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, function) {
			runtime.Goexit()
		}
		if !more {
			return
		}
	}
}

// recovered turns a panic of raft at its start, about an entry that cannot be read, into an error.
func recovered(err *error) {
	switch r := recover().(type) {
	case nil:
	case runtime.Error:
		panic(r) // a bug
	case error:
		*err = fmt.Errorf("raft could not start: %w", r)
	default:
		panic(r)
	}
}
