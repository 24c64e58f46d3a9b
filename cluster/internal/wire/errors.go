package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// The codes of errors that cross the wire. They never change.
const (
	codeFailed    = "failed"
	codeMethod    = "unknown-method"
	codeNotLeader = "not-leader"
)

// ErrUnknownMethod is what a call fails with if the other node has no handler of that name.
var ErrUnknownMethod = errors.New("the node does not know this method: is it of an older version?")

// sentinels are the errors that a caller recognizes by errors.Is after they have crossed the wire.
var sentinels = []struct {
	code string
	err  error
}{
	{"unknown-outcome", kv.ErrUnknown},
	{"no-quorum", kv.ErrNoQuorum},
	{"stale", kv.ErrStale},
	{"busy", kv.ErrBusy},
	{"no-space", kv.ErrNoSpace},
	{"closed", kv.ErrClosed},
	{codeMethod, ErrUnknownMethod},
	{"canceled", context.Canceled},
	{"deadline", context.DeadlineExceeded},
}

// RemoteError is an error of a handler on another node. It unwraps to the error of kv that the handler
// returned, if any: the same sentinel, or a *kv.NotLeaderError.
type RemoteError struct {
	// Code names the kind of error; "failed" is any that has no code.
	Code string
	// Text is what the handler's error said.
	Text  string
	cause error
}

func (e *RemoteError) Error() string { return e.Text }

// Unwrap returns the error of this process that Code stands for, or nil.
func (e *RemoteError) Unwrap() error { return e.cause }

type failure struct {
	Code   string     `json:"code"`
	Text   string     `json:"text"`
	Group  kv.GroupID `json:"group,omitempty"`
	Leader string     `json:"leader,omitempty"`
}

// maxErrorText bounds the text of an error that crosses the wire.
const maxErrorText = 4 << 10

func (l *Listener) encodeError(err error) []byte {
	f := failure{Code: codeFailed, Text: err.Error()}
	if len(f.Text) > maxErrorText {
		f.Text = f.Text[:maxErrorText]
	}
	var notLeader *kv.NotLeaderError
	var remote *RemoteError
	switch {
	case errors.As(err, &notLeader):
		f.Code, f.Group, f.Leader = codeNotLeader, notLeader.Group, notLeader.Leader
	default:
		for code, sentinel := range l.o.Errors {
			if errors.Is(err, sentinel) {
				f.Code = code
			}
		}
		for _, s := range sentinels {
			if f.Code == codeFailed && errors.Is(err, s.err) {
				f.Code = s.code
			}
		}
		if f.Code == codeFailed && errors.As(err, &remote) {
			f.Code = remote.Code // of a call that the handler itself has made
		}
	}
	b, err := json.Marshal(f)
	if err != nil {
		return []byte(`{"code":"failed","text":"the error cannot be encoded"}`)
	}
	return b
}

func (l *Listener) decodeError(b []byte) error {
	var f failure
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("decode a failure: %w", err)
	}
	e := &RemoteError{Code: f.Code, Text: f.Text, cause: l.o.Errors[f.Code]}
	if f.Code == codeNotLeader {
		e.cause = &kv.NotLeaderError{Group: f.Group, Leader: f.Leader}
	}
	for _, s := range sentinels {
		if e.cause == nil && f.Code == s.code {
			e.cause = s.err
		}
	}
	return e
}
