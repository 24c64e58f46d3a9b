package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"

	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// readAll returns the requests in a text, and the error after them.
func readAll(q *requests, authenticated bool) (list [][]string, err error) {
	for {
		args, err := q.Next(authenticated)
		if err != nil {
			return list, err
		}
		if args == nil {
			if err = q.fill(); err != nil {
				return list, err
			}
			continue
		}
		var one []string
		for _, arg := range args {
			one = append(one, string(arg))
		}
		list = append(list, one)
	}
}

func TestRequestsAreReadHoweverTheyArrive(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	text := encode("SET", "k", "v") + "get  'a b' \"\\x41\\n\"\r\n" + "\r\n*0\r\n*-1\r\n" + encode("ECHO", long) + encode("", "") + "PING\n"
	want := [][]string{{"SET", "k", "v"}, {"get", "a b", "A\n"}, {"ECHO", long}, {"", ""}, {"PING"}}
	for name, source := range map[string]io.Reader{
		"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		"in halves": iotest.HalfReader(strings.NewReader(text)),
	} {
		got, err := readAll(newRequests(source, 1<<20), true)
		require.ErrorIs(t, err, io.EOF, name)
		require.Equal(t, want, got, name)
	}
}

func TestBadRequestsGetTheErrorsOfRedis(t *testing.T) {
	for raw, want := range map[string]string{
		"*9223372036854775807\r\n":       "invalid multibulk length",
		"*1048577\r\n":                   "invalid multibulk length",
		"*x\r\n":                         "invalid multibulk length",
		"*1\r\n$9223372036854775807\r\n": "invalid bulk length",
		"*1\r\n$-1\r\n":                  "invalid bulk length",
		"*1\r\n$1001\r\n":                "invalid bulk length",
		"*3\r\n$500\r\n" + strings.Repeat("x", 500) + "\r\n$500\r\n": "invalid bulk length",
		"*1\r\n:1\r\n":                          "expected '$', got ':'",
		"*" + strings.Repeat("1", 70_000):       "too big mbulk count string",
		"*1\r\n$" + strings.Repeat("1", 70_000): "too big bulk count string",
		strings.Repeat("x", 70_000):             "too big inline request",
		"GET 'a\r\n":                            "unbalanced quotes in request",
		"GET 'a'b\r\n":                          "unbalanced quotes in request",
	} {
		_, err := readAll(newRequests(strings.NewReader(raw), 1000), true)
		require.True(t, isProtocol(err), "%.40q: %v", raw, err)
		require.EqualError(t, err, "Protocol error: "+want, "%.40q", raw)
	}
	_, err := readAll(newRequests(strings.NewReader("*11\r\n"), 1000), false)
	require.EqualError(t, err, "Protocol error: unauthenticated multibulk length")
	_, err = readAll(newRequests(strings.NewReader("*1\r\n$16385\r\n"), 1<<20), false)
	require.EqualError(t, err, "Protocol error: unauthenticated bulk length")
}

func TestAnnouncedLengthsUseNoMemory(t *testing.T) {
	raw := "*1048576\r\n$" + fmt.Sprint(60<<20) + "\r\n"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		q := newRequests(strings.NewReader(raw), 64<<20)
		_, err := readAll(q, true)
		require.ErrorIs(t, err, io.EOF)
		require.LessOrEqual(t, len(q.buf), initialBuffer)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100*2*initialBuffer))
}

// What is accepted stays within the limit, and is what redcon's parser makes of it when it is written as an array.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		encode("SET", "k", "v"), "PING\r\n", "*2\r\n$1\r\na\r\n$0\r\n\r\n", "set 'a' \"\\x00\"\n", "*-1\r\n*1\r\n$1\r\na\r\n",
		"*9223372036854775807\r\n", "$1\r\n", "*1\r\n$99999\r\n", "\x00", "GET \"\\x4", "*1\n$1\na\n",
	} {
		f.Add([]byte(seed))
	}
	const limit = 1000
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := newRequests(bytes.NewReader(raw), limit)
		list, err := readAll(q, true)
		require.True(t, isProtocol(err) || errors.Is(err, io.EOF), "%v", err)
		again, errAgain := readAll(newRequests(iotest.OneByteReader(bytes.NewReader(raw)), limit), true)
		require.Equal(t, list, again)
		require.Equal(t, isProtocol(err), isProtocol(errAgain))
		for _, args := range list {
			cmd, err := redcon.Parse([]byte(encode(args...)))
			require.NoError(t, err)
			require.Len(t, cmd.Args, len(args))
			for i := range args {
				require.Equal(t, args[i], string(cmd.Args[i]))
				require.LessOrEqual(t, len(args[i]), maxInline)
			}
		}
		require.LessOrEqual(t, len(q.buf), max(initialBuffer, 2*len(raw)))
	})
}

func TestABadRequestEndsTheConnectionAfterTheRepliesBefore(t *testing.T) {
	p := dial(t, "tcp", start(t, kvtest.New(1), Options{}))
	p.send(encode("SET", "k", "v") + encode("GET", "k") + "*x\r\n" + encode("SET", "k", "lost"))
	require.Equal(t, "+OK", p.reply())
	require.Equal(t, "v", p.reply())
	require.Equal(t, "-ERR Protocol error: invalid multibulk length", p.reply())
	require.True(t, p.closed())
}

func TestRequestsOfBrowsersEndTheConnection(t *testing.T) {
	p := dial(t, "tcp", start(t, kvtest.New(1), Options{}))
	p.send("POST / HTTP/1.1\r\nHost: a\r\n\r\nSET k v\r\n")
	require.True(t, p.closed())
}

// A client that never reads stops its own connection when the reply fills the socket, and no other.
func TestAClientThatReadsNothingUsesLittleMemory(t *testing.T) {
	node := kvtest.New(1)
	s, addr := startServer(t, node, Options{SendTimeout: time.Second})
	other := dial(t, "tcp", addr)
	require.Equal(t, "+OK", other.args("SET", "k", strings.Repeat("x", 1<<20)))

	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	deaf := dial(t, "tcp", addr)
	request, sent := strings.Repeat(encode("GET", "k"), 1000), 0
	for range 20 { // replies of 20 GiB
		n, err := io.WriteString(deaf.nc, request)
		if sent += n; err != nil {
			break
		}
	}
	require.Positive(t, sent)
	require.Equal(t, "x", other.do("GETRANGE k 0 0"))
	runtime.ReadMemStats(&during)
	require.Less(t, int64(during.HeapAlloc)-int64(before.HeapAlloc), int64(64<<20))
	require.Eventually(t, func() bool { return s.Stats().Clients == 1 }, time.Minute, time.Millisecond)
}

func TestAThousandPipelinedWritesAreInFlightTogether(t *testing.T) {
	node := kvtest.New(1)
	node.World().Hold(0)
	p := dial(t, "tcp", start(t, node, Options{}))
	var b strings.Builder
	for i := range 1000 {
		b.WriteString(encode("SET", fmt.Sprintf("k%d", i), "v"))
	}
	p.send(b.String())
	// They arrive in a few parts; those of the first part are in flight together.
	require.Eventually(t, func() bool { return node.World().Waiting(0) > 100 }, time.Minute, time.Millisecond)
	node.World().Release(0)
	for range 1000 {
		require.Equal(t, "+OK", p.reply())
	}
	require.Equal(t, ":1000", p.do("DBSIZE"))
}

// isProtocol reports whether an error is the client's.
func isProtocol(err error) bool {
	var p errProtocol
	return errors.As(err, &p)
}

// A client that sent a request of 64 MiB was reset before it could read the error, because it reads only afterwards.
func TestAClientGetsTheErrorOfARequestThatIsTooLong(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		raw  string
		want string
	}{
		"a long string": {Options{MaxRequest: 1 << 20}, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000000\r\n",
			"invalid bulk length"},
		"no protocol":    {Options{}, "*1\r\nx", "expected '$'"},
		"without memory": {Options{ClientBytes: 8 << 10}, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000000\r\n", "-TRYAGAIN"},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := startServer(t, kvtest.New(1), c.o)
			p := dial(t, "tcp", addr)
			p.send(c.raw)
			for range 20 { // 20 MB, which fit into no buffer; send fails if the connection is reset
				p.send(strings.Repeat("x", 1_000_000))
			}
			require.Contains(t, p.reply(), c.want)
			require.True(t, p.closed())
			require.NoError(t, p.nc.Close())
			require.Eventually(t, func() bool { return s.Stats().Clients == 0 }, time.Minute, time.Millisecond)
			require.Zero(t, s.Stats().ClientBytes)
		})
	}
}
