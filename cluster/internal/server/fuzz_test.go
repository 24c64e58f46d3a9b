package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// scripted is a connection whose client has sent everything, closes then, and accepts everything. Unlike net.Pipe it
// needs no second goroutine, so that a run of a fuzz target is always the same.
type scripted struct {
	net.Conn
	in        io.Reader
	out       bytes.Buffer
	deadlines int // that were set for reading
}

func (c *scripted) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c *scripted) Write(p []byte) (int, error)      { return c.out.Write(p) }
func (c *scripted) Close() error                     { return nil }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }
func (c *scripted) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (c *scripted) SetReadDeadline(time.Time) error {
	c.deadlines++
	return nil
}

// session serves all that a client sends, and returns the replies.
func (c *scripted) session(o Options) (*Server, string) {
	s := New(kvtest.New(2), o)
	clock := &testClock{now: time.Unix(1e9, 0)}
	s.now, s.pause = clock.Now, clock.pause
	s.accept(c)
	s.conns.Wait()
	s.cancel()
	return s, c.out.String()
}

// Whatever a client sends, each of its requests gets one reply that can be parsed, nothing of it is kept, and without
// the password it reads and writes nothing.
func FuzzSession(f *testing.F) {
	requests := func(lines ...string) (all string) {
		for _, line := range lines {
			all += encode(words(line)...)
		}
		return all
	}
	for _, seed := range []string{
		requests("AUTH wrong", "AUTH secret", "SET k v", "GET k", "KEYS *", "SCAN 0 MATCH [a-k]* COUNT 5", "RESET", "GET k"),
		requests("HELLO 3 AUTH default secret SETNAME n", "MULTI", "INCR n", "CLIENT LIST", "EXEC", "COMMAND COUNT", "INFO"),
		requests("AUTH secret", "WATCH a b", "WATCH k", "MULTI", "nothing", "DISCARD", "CONFIG GET *", "SETRANGE k 100000000 x"),
		requests("AUTH secret", "CLUSTER SLOTS", "RAFT.NODES", "FLUSHALL", "DBSIZE", "RANGE {a} {a}z LIMIT 3", "SELECT 1", "QUIT", "PING"),
		requests("AUTH secret", "CONFIG SET slowlog-log-slower-than 0 latency-monitor-threshold 1",
			"BITFIELD k SET u8 #1 7 OVERFLOW SAT INCRBY i3 0 9",
			"BITOP XOR k k k", "BITPOS k 1 0 -1 BIT", "LCS k k IDX", "DUMP k", "RESTORE {k}2 0 x REPLACE",
			"OBJECT HELP", "MULTI", "OBJECT HELP",
			"MEMORY USAGE k", "EXEC", "SLOWLOG GET", "LATENCY HISTOGRAM", "CONFIG RESETSTAT", "CLIENT KILL SKIPME no"),
		requests("AUTH secret", "GET k", "CLIENT REPLY SKIP", "GET k", "CLIENT REPLY OFF", "SET k 1",
			"CLIENT REPLY ON", "MULTI", "CLIENT REPLY OFF", "EXEC"),
		requests("AUTH secret") + "SET 'a\\x00' \"\\r\\n\"\r\nnothing \r\n*2\r\n$1\r\nx",
		"*1\r\n$99999\r\n", "POST / HTTP/1.1\r\n", "*-1\r\n\r\n*0\r\nPING\r\n", requests("AUTH secret", "no\r\nsuch \r\n"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, password := range []string{"", "secret"} {
			o := Options{Password: password, MaxRequest: 1 << 16, MaxReply: 1 << 20}
			c := &scripted{in: bytes.NewReader(raw)}
			s, out := c.session(o)
			replies := parseReplies(t, out)
			stats := s.Stats()
			lower := strings.ToLower(string(raw))
			// These get no reply, or CLIENT REPLY lets others have none.
			if !strings.Contains(lower, "post") && !strings.Contains(lower, "host:") &&
				!strings.Contains(lower, "reply") {
				require.EqualValues(t, stats.Commands+stats.ProtocolErrors, len(replies), "%q", out)
			}
			require.Zero(t, stats.Clients+stats.Unauthenticated+int(stats.ClientBytes))
			require.Zero(t, s.places.admitted)
			if password != "" && !bytes.Contains(raw, []byte(password)) {
				for _, reply := range replies {
					require.True(t, reply == "+OK" || reply == "+RESET" || strings.HasPrefix(reply, "-"), "%q", reply)
				}
			}
			// It does not matter in which parts the bytes arrive.
			again := &scripted{in: iotest.OneByteReader(bytes.NewReader(raw))}
			s, _ = again.session(o)
			require.Equal(t, stats.Commands, s.Stats().Commands)
			require.Equal(t, stats.ProtocolErrors, s.Stats().ProtocolErrors)
		}
	})
}

func parseReplies(t *testing.T, out string) (replies []string) {
	for r := bufio.NewReader(strings.NewReader(out)); ; {
		if _, err := r.Peek(1); err != nil {
			return replies
		}
		reply, err := readReply(r)
		require.NoError(t, err, "%q", out)
		replies = append(replies, reply)
	}
}
