package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/nettest"
)

func accept(*hello) (byte, speaker) { return statusAccepted, speaker{Peer: Peer{"y", 3}} }

func anyStart(Peer, Start) error { return nil }

var testHello = hello{kind: kindRaft, group: 7, from: Peer{"x", 1}, to: Peer{"y", 3}, addr: "y:1"}

func newStranger(t *testing.T, to *Listener) *nettest.Relay {
	return nettest.NewRelay(t, "127.0.0.1:0", to.Addr().String())
}

func frameOf(kind byte, payload string) []byte {
	var b bytes.Buffer
	writeFrame(&b, kind, []byte(payload))
	return b.Bytes()
}

// The attack of a node that lost its address: a stranger there sends what arrives to a node that runs, which may be the
// dialer itself.
func TestAStrangerAtTheAddressOfADeadNodeGetsNothing(t *testing.T) {
	ca := newAuthority(t)
	for name, options := range map[string][]func(*Options){
		"secret": {withSecret}, "TLS and secret": {ca.options(t), withSecret}, "plain": nil,
	} {
		for _, reflect := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", back to the dialer", false: ", to another node"}[reflect], func(t *testing.T) {
				testStranger(t, reflect, options...)
			})
		}
	}
}

func testStranger(t *testing.T, reflect bool, options ...func(*Options)) {
	options = append(options, func(o *Options) { o.Cluster = "c" })
	dialer, other := listen(t, options...), listen(t, options...)
	victim := other
	if reflect {
		victim = dialer
	}
	secrets := func(_ context.Context, _ json.RawMessage, w io.Writer) error {
		t.Error("a node was asked for its state")
		_, err := w.Write([]byte("the state"))
		return err
	}
	for _, l := range []*Listener{dialer, other} {
		l.HandleStream("state", secrets)
		s := l.Group(1)
		go func() {
			if _, err := s.Accept(); err == nil {
				t.Error("a group has accepted a stream")
			}
		}()
	}
	s := newStranger(t, victim)
	dead := Target{Peer{ID: "dead"}, s.Addr().String()}
	requireRefused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, ErrRefused)
		if !reflect {
			require.ErrorIs(t, err, ErrOtherPeer)
			require.ErrorContains(t, err, "was wanted at")
			require.ErrorContains(t, err, "where node "+string(other.o.ID)+" is")
		} else {
			require.ErrorContains(t, err, "came back")
		}
	}
	_, err := dialer.Group(1).Dial(t.Context(), "dead.1", dead.Addr)
	requireRefused(err)
	_, err = dialer.Group(1).DialConfirm(t.Context(), "dead.1", dead.Addr)
	requireRefused(err)
	_, err = dialer.CallStream(t.Context(), dead, "state", nil)
	requireRefused(err)
	s.Send(frameOf(frameStream, `{"method":"state"}`))
	if reflect { // the dialer may know only the address
		_, err = dialer.CallStream(t.Context(), At(dead.Addr), "state", nil)
		requireRefused(err)
	}
	require.False(t, s.Saw("the state"))
}

// With a secret, a node that joins by an address talks to the node that answers in the end, and to nobody between.
func TestARelayOfAJoinReadsAndChangesNothing(t *testing.T) {
	member := listen(t, withSecret, func(o *Options) { o.Cluster = "c" })
	member.Handle("join", func(_ context.Context, r json.RawMessage) (any, error) { return "the map", nil })
	s := newStranger(t, member)
	joiner := listen(t, withSecret)
	var answer string
	require.NoError(t, joiner.Call(t.Context(), At(s.Addr().String()), "join", "who asks", &answer))
	require.Equal(t, "the map", answer)
	for _, text := range []string{"the map", "who asks", "join"} {
		require.False(t, s.Saw(text), "the stranger has read %q", text)
	}
	for _, fromDialer := range []bool{true, false} {
		joiner.pool.drop()
		s.Alter(func(is bool, b []byte) {
			if is == fromDialer && len(b) > 0 {
				b[len(b)-1] ^= 1
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.Error(t, joiner.Call(ctx, At(s.Addr().String()), "join", "who asks", &answer))
		require.NoError(t, ctx.Err(), "it ends at once")
		cancel()
	}
}

// The proofs have the address as it was dialed. A node that knows it as that of another one refuses the call.
func TestAJoinByTheAddressOfAnotherMemberIsRefused(t *testing.T) {
	for name, option := range map[string]func(*Options){"secret": withSecret, "plain": func(*Options) {}} {
		t.Run(name, func(t *testing.T) {
			var dead string
			member := listen(t, option, func(o *Options) {
				o.Cluster = "c"
				o.Owner = func(addr string) kv.NodeID {
					if addr == dead {
						return "dead"
					}
					return ""
				}
			})
			member.Handle("join", func(context.Context, json.RawMessage) (any, error) { return nil, nil })
			s := newStranger(t, member)
			joiner := listen(t, option)
			require.NoError(t, joiner.Call(t.Context(), At(s.Addr().String()), "join", nil, nil), "such as a proxy")
			joiner.pool.drop()
			dead = s.Addr().String()
			err := joiner.Call(t.Context(), At(dead), "join", nil, nil)
			require.ErrorIs(t, err, ErrOtherPeer)
			require.ErrorContains(t, err, "does somebody pass connections on?")
			dead = member.Addr().String() // as if another node had it before
			require.NoError(t, joiner.Call(t.Context(), At(dead), "join", nil, nil))
		})
	}
}

func TestOnlyTheWantedNodeAccepts(t *testing.T) {
	for name, option := range map[string]func(*Options){"secret": withSecret, "plain": func(*Options) {}} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			a := listen(t, option, func(o *Options) {
				o.Cluster, o.Incarnation, o.Logger = "c", 3, slog.New(slog.NewTextHandler(&log, nil))
			})
			b := listen(t, option, func(o *Options) { o.Cluster = "c" })
			a.Group(1)
			dial := func(server string) error {
				conn, err := b.Group(1).Dial(t.Context(), server, a.Addr().String())
				if err == nil {
					conn.Close()
				}
				return err
			}
			id := string(a.o.ID)
			require.NoError(t, dial(id))
			require.NoError(t, dial(id+".3"))
			require.ErrorIs(t, dial(id+".2"), ErrOtherPeer)
			require.ErrorIs(t, dial(id+"x"), ErrOtherPeer)
			require.ErrorContains(t, dial(""), "no ID of a node")
			_, err := b.dialPeer(t.Context(), At(a.Addr().String()), kindRaft, 1)
			require.ErrorIs(t, err, ErrOtherPeer, "streams of raft always say which node they want")
			a.SetIdentity("c", 4, Start{})
			require.ErrorIs(t, dial(id+".3"), ErrOtherPeer)
			require.NoError(t, dial(id+".4"))
			require.NoError(t, a.Close()) // all has been logged
			require.Contains(t, log.String(), "from node "+string(b.o.ID))
			require.Contains(t, log.String(), "node "+id+".2 was wanted")
		})
	}
}

func TestAnotherProcessWithTheSameIDIsATwin(t *testing.T) {
	a := listen(t, withSecret)
	b := listen(t, withSecret, func(o *Options) { o.ID = a.o.ID })
	require.ErrorIs(t, b.Call(t.Context(), of(a), "status", nil, nil), ErrTwin)
	status, _, _ := a.judge(&hello{kind: kindControl, from: b.self.Peer})
	require.EqualValues(t, statusTwin, status, "the listener refuses it too")
	err := b.Call(t.Context(), of(b), "status", nil, nil)
	require.ErrorIs(t, err, ErrRefused)
	require.NotErrorIs(t, err, ErrTwin)
	require.ErrorContains(t, err, "came back")
}

// Operators name all nodes in --join, the node itself among them: that was a warning every few seconds.
func TestANodeThatReachesItselfByAnAddressIsNoAlarm(t *testing.T) {
	var log bytes.Buffer
	a := listen(t, withSecret, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	require.ErrorIs(t, a.Call(t.Context(), At(a.Addr().String()), "status", nil, nil), ErrSelf)
	other := Target{Peer{ID: "other"}, a.Addr().String()}
	require.ErrorIs(t, a.Call(t.Context(), other, "status", nil, nil), ErrRefused)
	require.NoError(t, a.Close()) // all has been logged
	require.Equal(t, 1, strings.Count(log.String(), "WARN"), log.String())
	require.Contains(t, log.String(), "does somebody send its own messages back")
}

func TestAHandshakeCannotBeReplayed(t *testing.T) {
	a, b := listen(t, withSecret), listen(t, withSecret)
	a.Handle("count", func(context.Context, json.RawMessage) (any, error) { return 1, nil })
	s := newStranger(t, a)
	require.NoError(t, b.Call(t.Context(), At(s.Addr().String()), "count", nil, nil))
	recorded, answers := s.Seen()
	a.Handle("count", func(context.Context, json.RawMessage) (any, error) {
		t.Error("the call was replayed")
		return 1, nil
	})
	conn := dialRaw(t, a, recorded)
	got, _ := io.ReadAll(conn) // it may be reset, since not all was read
	require.LessOrEqual(t, len(got), 1+keySize+1)
	if len(got) == 1+keySize+1 {
		require.EqualValues(t, statusSecret, got[1+keySize])
	}
	// And the answers to a dialer.
	_, err := greet(&script{in: bytes.NewReader(answers)}, testHello, testSecret, anyStart)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "secrets of the two nodes differ")
}

// No byte of a handshake can be changed on its way: the dialer finds that the listener has not seen what it sent, or
// has not sent what it got.
func TestEachByteOfAHandshakeIsCovered(t *testing.T) {
	changed := [2][]int{}
	for at := range len(testHello.append(nil)) + proofSize {
		if at != prefixSize-1 && at != prefixSize-2 { // of another length the listener waits for the rest
			changed[0] = append(changed[0], at)
		}
	}
	for at := range 1 + keySize + 1 + peerSize + len(testHello.to.ID) + startSize + proofSize {
		if at != 1+keySize+1 { // the dialer would wait for a longer name
			changed[1] = append(changed[1], at)
		}
	}
	require.NoError(t, changedHandshake(0, -1))
	for direction, all := range changed {
		for _, at := range all {
			require.Error(t, changedHandshake(direction, at), "direction %d, byte %d", direction, at)
		}
	}
}

// changedHandshake returns the dialer's error of a handshake of which a byte is changed on its way: to the listener
// in direction 0, to the dialer in direction 1.
func changedHandshake(direction, at int) error {
	dialer, left := net.Pipe()
	right, listener := net.Pipe()
	pass := func(to, from net.Conn, at int) {
		defer to.Close()
		b, done := make([]byte, 1<<10), 0
		for {
			n, err := from.Read(b)
			if at >= done && at < done+n {
				b[at-done] ^= 0x80 // X25519 ignores the highest bit of a key
			}
			done += n
			if _, err2 := to.Write(b[:n]); err != nil || err2 != nil {
				return
			}
		}
	}
	positions := [2]int{-1, -1}
	positions[direction] = at
	go pass(right, left, positions[0])
	go pass(left, right, positions[1])
	go func() {
		defer listener.Close()
		_, _, _ = admit(listener, nil, testSecret, accept)
	}()
	defer dialer.Close()
	_, err := greet(dialer, testHello, testSecret, anyStart)
	return err
}

// A listener that does not know the secret accepts any proof, and repeats it.
func TestADialerDetectsAListenerWithoutTheSecret(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		defer b.Close()
		_, _, _ = readHello(b, nil)
		b.Write(append([]byte{statusProve, 9}, make([]byte, keySize-1)...))
		var stolen [proofSize]byte
		io.ReadFull(b, stolen[:])
		b.Write(append(speaker{Peer: testHello.to}.append([]byte{statusAccepted}), stolen[:]...))
	}()
	_, err := greet(a, testHello, testSecret, anyStart)
	require.ErrorIs(t, err, ErrRefused)
}

// A key of zeros would make the keys of the session known.
func TestKeysThatForceTheSharedOneAreRefused(t *testing.T) {
	c := &script{in: bytes.NewReader(append([]byte{statusProve}, make([]byte, keySize)...))}
	_, err := greet(c, testHello, testSecret, anyStart)
	require.ErrorIs(t, err, ErrRefused)
	c = &script{in: bytes.NewReader(append(testHello.append(nil), make([]byte, proofSize)...))}
	_, _, err = admit(c, nil, testSecret, accept)
	require.ErrorIs(t, err, ErrRefused)
}

func TestNodesOfOtherVersionsAreNamedAtBothEnds(t *testing.T) {
	var log bytes.Buffer
	l := listen(t, withSecret, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	old := append([]byte(magic), make([]byte, 54)...) // as long as a hello of version 1
	old[len(magic)] = 1
	conn := dialRaw(t, l, old)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, []byte{statusVersion, Version}, answer, "version 1 reads the first byte only")
	require.NoError(t, l.Close())
	require.Contains(t, log.String(), "the other node speaks version 1 and this node version 4: upgrade the other node")

	for text, answer := range map[string][]byte{
		"an older version": {statusVersion}, "version 9": {statusVersion, 9}, // version 1 sends one byte
	} {
		a, b := net.Pipe()
		go func() {
			io.ReadFull(b, old) // a listener of version 1 reads so much first
			b.Write(answer)
			b.Close()
		}()
		_, err := greet(quietWriter{a}, hello{kind: kindControl, from: Peer{ID: "x"}, to: Peer{ID: "y"}}, testSecret, anyStart)
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorIs(t, err, ErrVersion)
		require.ErrorContains(t, err, "node y speaks "+text+" and this node version 4: upgrade ")
	}
}

// Raft tries again each second, and an operator needs one line for each node.
func TestANodeOfAnotherVersionIsNamedOnce(t *testing.T) {
	var log bytes.Buffer
	l := listen(t, withSecret, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for _, theirs := range []byte{Version - 1, Version + 1, Version - 1, Version + 1} {
		h := hello{kind: kindRaft, from: Peer{ID: "n2", Incarnation: 7}, to: Peer{ID: "n1"}, addr: "127.0.0.1:1"}
		sent := h.append(nil)
		sent[len(magic)] = theirs
		answer, err := io.ReadAll(dialRaw(t, l, sent))
		require.NoError(t, err)
		require.Equal(t, []byte{statusVersion, Version}, answer)
	}
	require.NoError(t, l.Close())
	require.Equal(t, 1, strings.Count(log.String(), "node n2 speaks version 3 and this node version 4: upgrade node n2;"), log.String())
	require.Equal(t, 1, strings.Count(log.String(), "node n2 speaks version 5 and this node version 4: upgrade this node;"), log.String())
	require.Empty(t, l.OtherVersions(), "strangers cannot plant problems")

	var v versions
	now := time.Now()
	require.True(t, v.meet(versionError{"node 1", 2}, true, now))
	require.False(t, v.meet(versionError{"node 1", 2}, true, now.Add(versionAgain-1)))
	require.True(t, v.meet(versionError{"node 1", 2}, true, now.Add(versionAgain)))
	for i := range 2 * maxVersions {
		v.meet(versionError{fmt.Sprint(i), 2}, false, now)
	}
	require.Len(t, v.seen, maxVersions)
}

// A client of a node that starts, or waits until another one lets it join, waited as long.
func TestClientsGetAnAnswerWhileANodeIsLoading(t *testing.T) {
	l := listen(t, func(o *Options) { o.Loading = "LOADING not yet" })
	answer, err := io.ReadAll(dialRaw(t, l, []byte("PING\r\n")))
	require.NoError(t, err)
	require.Equal(t, "-LOADING not yet\r\n", string(answer))
	l.Loaded()
	dialRaw(t, l, []byte("PING\r\n"))
	conn, err := l.Clients().Accept()
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// quietWriter does not mind that the other end of a pipe reads only a part.
type quietWriter struct{ net.Conn }

func (q quietWriter) Write(p []byte) (int, error) {
	go q.Conn.Write(p)
	return len(p), nil
}

// A connection without a secret and one below TLS have no layer of records.
func TestRecordsAreForConnectionsWithASecretAndWithoutTLS(t *testing.T) {
	ca := newAuthority(t)
	for name, c := range map[string]struct {
		options []func(*Options)
		secured bool
	}{
		"plain": {nil, false}, "secret": {[]func(*Options){withSecret}, true}, "TLS": {[]func(*Options){ca.options(t)}, false},
		"TLS and secret": {[]func(*Options){ca.options(t), withSecret}, false},
	} {
		a, b := listen(t, c.options...), listen(t, c.options...)
		conn, err := b.dialPeer(t.Context(), of(a), kindControl, 0)
		require.NoError(t, err)
		_, secured := conn.(*secureConn)
		require.Equal(t, c.secured, secured, name)
		conn.Close()
	}
}

// A node is told at which end of a connection its directory was found to be an older copy.
func TestAStartThatNoProgramHasWrittenIsSentWithItsSize(t *testing.T) {
	require.Len(t, Start{Number: 1, Nonces: make([]byte, 2*startSize)}.append(nil), startSize)
}

func TestBothEndsLearnTheStartOfTheOther(t *testing.T) {
	var mu sync.Mutex
	met, told := map[Peer]uint64{}, 0
	answer := map[string]error{}
	with := func(start uint64) func(*Options) {
		return func(o *Options) {
			id := string(o.ID)
			o.Start.Number = start
			o.Met = func(from Peer, s Start) error {
				mu.Lock()
				defer mu.Unlock()
				met[from] = s.Number
				return answer[id]
			}
			o.RolledBack = func(error) { told++ }
		}
	}
	a, b := listen(t, withSecret, with(3)), listen(t, withSecret, with(4))
	call := func() error { return a.Call(t.Context(), of(b), "status", nil, nil) }
	require.NotErrorIs(t, call(), ErrRefused, "it has no handler")
	require.Equal(t, map[Peer]uint64{a.self.Peer: 3, b.self.Peer: 4}, met)
	for _, c := range []struct {
		at           *Listener
		err          error
		text         string
		isRolledBack bool
	}{
		{b, ErrRolledBack, "has the number 3, and", true},
		{a, fmt.Errorf("%w: the other one", ErrRolledBack), "the other one", false},
	} {
		a.pool.drop()
		mu.Lock()
		answer = map[string]error{string(c.at.o.ID): c.err}
		told = 0
		mu.Unlock()
		err := call()
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorContains(t, err, c.text)
		require.Equal(t, c.isRolledBack, errors.Is(err, ErrRolledBack))
		require.Equal(t, c.isRolledBack, told == 1)
	}
	// A full disk cuts nobody off from news, but raft waits.
	b.Group(1)
	for id, text := range map[kv.NodeID]string{a.o.ID: "disk full", b.o.ID: "cannot write down"} {
		a.pool.drop()
		mu.Lock()
		answer = map[string]error{string(id): errors.New("disk full")}
		mu.Unlock()
		require.NotErrorIs(t, call(), ErrRefused)
		_, err := a.Group(1).Dial(t.Context(), string(b.o.ID), b.Addr().String())
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorContains(t, err, text)
	}
}
