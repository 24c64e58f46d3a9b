package consensus

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// script is a connection on which the other side has sent all of its bytes already.
type script struct {
	in     *bytes.Reader
	out    bytes.Buffer
	once   sync.Once
	closed chan struct{}
}

func newScript(in []byte) *script {
	return &script{in: bytes.NewReader(in), closed: make(chan struct{})}
}

func (s *script) Read(p []byte) (int, error)       { return s.in.Read(p) }
func (s *script) Write(p []byte) (int, error)      { return s.out.Write(p) }
func (s *script) LocalAddr() net.Addr              { return address("here") }
func (s *script) RemoteAddr() net.Addr             { return address("there") }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// scripts is a Stream of such connections.
type scripts struct {
	accept chan net.Conn
	dial   func() net.Conn
	once   sync.Once
	closed chan struct{}
}

func newScripts(dial func() net.Conn) *scripts {
	return &scripts{accept: make(chan net.Conn), dial: dial, closed: make(chan struct{})}
}

func (s *scripts) Accept() (net.Conn, error) {
	select {
	case c := <-s.accept:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *scripts) AcceptConfirm() (net.Conn, error) { return nil, net.ErrClosed }
func (s *scripts) Addr() net.Addr                   { return address("here") }
func (s *scripts) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *scripts) Dial(context.Context, string, string) (net.Conn, error) {
	if s.dial == nil {
		return nil, errors.New("nobody is there")
	}
	return s.dial(), nil
}

func (s *scripts) DialConfirm(ctx context.Context, server, addr string) (net.Conn, error) {
	return s.Dial(ctx, server, addr)
}

// scripted returns a running transport over scripts, and counts what reaches raft.
func scripted(f *testing.F, s *scripts, got func(raft.RPC)) *transport {
	o := &Options{ID: "me", Stream: s, Timing: Timing{RPC: time.Minute}, Logger: slog.New(slog.DiscardHandler)}
	t := newTransport(o, newLogStore(raft.NewInmemStore(), func() bool { return false }))
	t.ctx = context.Background()
	t.installed = func(uint64) {}
	t.settled = func() uint64 { return 5 }
	t.servers = func() []raft.Server { return []raft.Server{{ID: "me"}, {ID: "other", Suffrage: raft.Nonvoter}} }
	t.start()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case rpc := <-t.Consumer():
				got(rpc)
			case <-t.done:
				return
			}
		}
	}()
	f.Cleanup(func() {
		t.close()
		<-ended
	})
	return t
}

// rpcBytes is a message as raft's transport sends it.
func rpcBytes(kind byte, message any) []byte {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	w.WriteByte(kind)
	if err := codec.NewEncoder(w, &codec.MsgpackHandle{}).Encode(message); err != nil {
		panic(err)
	}
	w.Flush()
	return b.Bytes()
}

// requireBounded fails if f allocates much more than what it got is worth.
func requireBounded(t *testing.T, size int, f func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20+100*size), "bytes for a message of %d", size)
}

// What arrives on a stream of raft, from its first byte: the wanted server, and then messages in MessagePack. Nothing
// panics, no length gets memory, and no message for another server reaches raft.
func FuzzRaftStream(f *testing.F) {
	me := []byte{2, 'm', 'e'}
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("other"), Addr: []byte("there:1")}
	entries := rpcBytes(0, &raft.AppendEntriesRequest{RPCHeader: header, Term: 3, PrevLogEntry: 1, LeaderCommitIndex: 2,
		Entries: []*raft.Log{{Index: 2, Term: 3, Data: []byte("data"), AppendedAt: time.Unix(1, 2)}, nil}})
	vote := rpcBytes(1, &raft.RequestVoteRequest{RPCHeader: header, Term: 4, LastLogIndex: 9})
	snapshot := append(rpcBytes(2, &raft.InstallSnapshotRequest{RPCHeader: header, Term: 4, LastLogIndex: 9, Size: 4,
		Configuration: []byte{0x80}}), "data"...)
	bad := append(rpcBytes(2, &raft.InstallSnapshotRequest{RPCHeader: header, SnapshotVersion: 1, Size: 4,
		Configuration: []byte("x")}), "data"...)
	badEntry := rpcBytes(0, &raft.AppendEntriesRequest{RPCHeader: header, Term: 3,
		Entries: []*raft.Log{{Index: 2, Type: raft.LogConfiguration, Data: []byte("x")}}})
	now := rpcBytes(3, &raft.TimeoutNowRequest{RPCHeader: header})
	preVote := rpcBytes(4, &raft.RequestPreVoteRequest{RPCHeader: header, Term: 4})
	for _, m := range [][]byte{entries, vote, snapshot, bad, badEntry, now, preVote, bytes.Join([][]byte{vote, snapshot, entries}, nil)} {
		f.Add(append(bytes.Clone(me), m...))
	}
	f.Add(append([]byte{1, 'x'}, vote...))
	f.Add(append(bytes.Clone(me), 0, 0x81, 0xa7, 'E', 'n', 't', 'r', 'i', 'e', 's', 0xdd, 0xff, 0xff, 0xff, 0xff)) // 2^32-1 entries
	f.Add(append(bytes.Clone(me), 0, 0x81, 0xa4, 'A', 'd', 'd', 'r', 0xc6, 0xff, 0xff, 0xff, 0xff))                // as many bytes
	f.Add(append(bytes.Clone(me), append([]byte{1, 0x81, 0xa1, 'x'}, bytes.Repeat([]byte{0x91}, 5000)...)...))     // nested deeply
	s, arrived := newScripts(nil), 0
	scripted(f, s, func(rpc raft.RPC) {
		arrived++
		h := raft.RPCHeader{ProtocolVersion: 3}
		switch m := rpc.Command.(type) {
		case *raft.AppendEntriesRequest:
			for _, e := range m.Entries { // as raft does
				if e.Type == raft.LogConfiguration {
					raft.DecodeConfiguration(e.Data)
				}
			}
			rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: h}, nil)
		case *raft.RequestVoteRequest:
			rpc.Respond(&raft.RequestVoteResponse{RPCHeader: h}, nil)
		case *raft.RequestPreVoteRequest:
			rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: h}, nil)
		case *raft.InstallSnapshotRequest:
			if m.SnapshotVersion > 0 {
				raft.DecodeConfiguration(m.Configuration)
			}
			_, err := io.Copy(io.Discard, rpc.Reader)
			rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: h, Success: err == nil}, err)
		default:
			rpc.Respond(&raft.TimeoutNowResponse{RPCHeader: h}, nil)
		}
	})
	f.Fuzz(func(t *testing.T, in []byte) {
		before := arrived
		c := newScript(in)
		requireBounded(t, len(in), func() {
			s.accept <- c
			<-c.closed
		})
		if !bytes.HasPrefix(in, me) {
			require.Equal(t, before, arrived, "a message for another server arrived")
			require.Zero(t, c.out.Len())
		}
	})
}

// What another server answers.
func FuzzRaftAnswers(f *testing.F) {
	answer := func(text string, response any) []byte {
		return append(rpcBytes(0, text)[1:], rpcBytes(0, response)[1:]...)
	}
	f.Add(uint8(0), answer("", &raft.AppendEntriesResponse{Term: 3, LastLog: 7, Success: true}))
	f.Add(uint8(1), answer("", &raft.RequestVoteResponse{Term: 3, Granted: true, Peers: []byte("x")}))
	f.Add(uint8(2), answer("", &raft.RequestPreVoteResponse{Term: 3}))
	f.Add(uint8(3), answer("", &raft.InstallSnapshotResponse{Term: 3, Success: true}))
	f.Add(uint8(4), answer("no", &raft.TimeoutNowResponse{}))
	f.Add(uint8(0), []byte{0xdb, 0xff, 0xff, 0xff, 0xff})                                  // a text of 2^32-1 bytes
	f.Add(uint8(1), append([]byte{0xa0, 0x81}, bytes.Repeat([]byte{0x81, 0xa1}, 5000)...)) // nested deeply
	var c *script
	trans := scripted(f, newScripts(func() net.Conn { return c }), func(rpc raft.RPC) { rpc.Respond(nil, io.EOF) })
	f.Fuzz(func(t *testing.T, kind uint8, in []byte) {
		c = newScript(in)
		requireBounded(t, len(in), func() {
			switch kind % 5 {
			case 0:
				trans.AppendEntries("o", "there", &raft.AppendEntriesRequest{Term: 3}, &raft.AppendEntriesResponse{})
			case 1:
				trans.RequestVote("o", "there", &raft.RequestVoteRequest{Term: 3}, &raft.RequestVoteResponse{})
			case 2:
				trans.RequestPreVote("o", "there", &raft.RequestPreVoteRequest{Term: 3}, &raft.RequestPreVoteResponse{})
			case 3:
				trans.InstallSnapshot("o", "there", &raft.InstallSnapshotRequest{Term: 3, Size: 1}, &raft.InstallSnapshotResponse{}, bytes.NewReader([]byte{1}))
			default:
				trans.TimeoutNow("o", "there", &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
			}
		})
		trans.inner.CloseStreams() // what is pooled has no more bytes
	})
}

func FuzzWanted(f *testing.F) {
	f.Add([]byte{2, 'm', 'e'}, "me")
	f.Add([]byte{2, 'm'}, "me")
	f.Add([]byte{0}, "")
	f.Add([]byte{255}, "me")
	f.Fuzz(func(t *testing.T, in []byte, id string) {
		if len(id) > maxID {
			return
		}
		c := newScript(in)
		got := wanted(c, id)
		sent := newScript(nil)
		require.NoError(t, want(sent, id))
		require.Equal(t, bytes.HasPrefix(in, sent.out.Bytes()), got)
		if got {
			require.Equal(t, len(in)-sent.out.Len(), c.in.Len(), "nothing more is read")
		}
	})
}
