package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// testClock is the clock of a server that only moves when it is told to, or by pauses.
type testClock struct {
	mu     sync.Mutex
	now    time.Time
	pauses []time.Duration
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) pause(d time.Duration, _ <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.pauses = append(c.pauses, d)
}

func (c *testClock) paused() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := time.Duration(0)
	for _, d := range c.pauses {
		all += d
	}
	return all
}

// startWithClock is startServer with a clock of the test.
func startWithClock(t testing.TB, o Options) (*Server, *testClock, string) {
	t.Helper()
	clock := &testClock{now: time.Now()}
	s, addr := prepare(t, kvtest.New(1), o, func(s *Server) { s.now, s.pause = clock.Now, clock.pause })
	return s, clock, addr
}

// 1,300 connections of one byte used up the descriptors of a process.
func TestStrangersHavePlacesOfTheirOwn(t *testing.T) {
	s, addr := startServer(t, kvtest.New(1), Options{Password: "secret", MaxClients: 2, MaxUnauthenticated: 3})
	clients := []*peer{dial(t, "tcp", addr), dial(t, "tcp", addr)}
	for _, c := range clients {
		require.Equal(t, "+OK", c.do("AUTH secret"))
	}
	var strangers []*peer
	for range 20 {
		p := dial(t, "tcp", addr)
		p.send("*")
		strangers = append(strangers, p)
	}
	for _, p := range strangers[:17] {
		require.True(t, p.closed(), "the oldest are closed")
	}
	for _, c := range clients {
		require.Equal(t, "+PONG", c.do("PING"), "clients stay")
	}
	stats := s.Stats()
	require.Equal(t, 5, stats.Clients)
	require.Equal(t, 3, stats.Unauthenticated)
	require.EqualValues(t, 17, stats.Evicted)

	// A stranger that authenticates needs the place of a client.
	p := dial(t, "tcp", addr)
	require.Equal(t, "-ERR max number of clients reached", p.do("AUTH secret"))
	require.True(t, p.closed())
	require.Equal(t, "+OK", clients[0].do("QUIT"))
	require.Eventually(t, func() bool {
		p := dial(t, "tcp", addr)
		return p.do("HELLO 3 AUTH default secret") != "-ERR max number of clients reached"
	}, time.Minute, time.Millisecond)
	require.Equal(t, "+RESET", clients[1].do("RESET"))
	require.Contains(t, clients[1].do("PING"), "-NOAUTH", "it is a stranger again")
	require.Equal(t, "+OK", clients[1].do("AUTH secret"))
}

// Of 300 clients that connected at once to a node with 320 places, 64 could be those that had to authenticate.
func TestClientsThatConnectAtOnceHaveTimeToAuthenticate(t *testing.T) {
	s, clock, addr := startWithClock(t, Options{Password: "secret", MaxClients: 5, MaxUnauthenticated: 2})
	connect := func() *peer {
		p := dial(t, "tcp", addr)
		p.send("*")
		return p
	}
	var all []*peer
	for range 5 + 2 {
		all = append(all, connect())
	}
	for _, p := range all[:4] {
		p.send("1\r\n$4\r\nQUIT\r\n")
		require.Equal(t, "+OK", p.reply())
	}
	require.Eventually(t, func() bool { return s.Stats().Unauthenticated == 3 }, time.Minute, time.Millisecond)
	for range 4 {
		all = append(all, connect())
	}
	require.Eventually(t, func() bool { return s.Stats().Unauthenticated == 7 }, time.Minute, time.Millisecond)
	require.Zero(t, s.Stats().Evicted)

	all = append(all, connect())
	require.True(t, all[4].closed(), "there are no free places")
	clock.pause(newcomer, nil)
	last := connect()
	for _, p := range all[5:11] {
		require.True(t, p.closed(), "they have used places of clients for long enough")
	}
	require.Equal(t, 2, s.Stats().Unauthenticated)
	last.send("2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n")
	require.Equal(t, "+OK", last.reply())
}

// 50 strangers with half a request held all of 50 places.
func TestStrangersWithHalfARequestGiveWayToClients(t *testing.T) {
	s, addr := startServer(t, kvtest.New(1), Options{MaxClients: 3})
	known := dial(t, "tcp", addr)
	require.Equal(t, "+PONG", known.do("PING"))
	var strangers []*peer
	for range 10 {
		p := dial(t, "tcp", addr)
		p.send("*2\r\n$3\r\nGET\r\n")
		strangers = append(strangers, p)
	}
	for _, p := range strangers[:8] {
		require.True(t, p.closed())
	}
	for range 2 { // they take the places of the last strangers
		require.Equal(t, "+PONG", dial(t, "tcp", addr).do("PING"))
	}
	require.True(t, strangers[8].closed() && strangers[9].closed())
	require.Equal(t, "-ERR max number of clients reached", dial(t, "tcp", addr).reply())
	require.Equal(t, "+PONG", known.do("PING"))
	require.Equal(t, 3, s.Stats().Clients)
	require.Zero(t, s.Stats().Unauthenticated)
	require.EqualValues(t, 10, s.Stats().Evicted)
}

func TestConnectionsThatAreTooManyHaveFewDescriptors(t *testing.T) {
	s := New(kvtest.New(1), Options{MaxClients: 1})
	var ends []net.Conn
	for i := range 1 + 3*MaxRejecting {
		ours, theirs := net.Pipe() // a write waits for its reader, so a rejection lasts
		s.accept(theirs)
		ends = append(ends, ours)
		if i == 0 {
			p := &peer{t: t, nc: ours, r: bufio.NewReader(ours)}
			require.Equal(t, "+PONG", p.do("PING"))
		}
	}
	for _, c := range ends[1+MaxRejecting:] {
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	for _, c := range ends {
		require.NoError(t, c.Close())
	}
	require.NoError(t, s.Close())
}

// 50 strangers with half a request held all of 50 places for good.
func TestHalfARequestDoesNotHoldAPlaceForGood(t *testing.T) {
	for name, o := range map[string]Options{
		"half a request":       {RequestTimeout: time.Millisecond},
		"without the password": {Password: "secret", AuthTimeout: time.Millisecond},
		"idle":                 {IdleTimeout: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := startServer(t, kvtest.New(1), o)
			p := dial(t, "tcp", addr)
			if o.IdleTimeout == 0 {
				p.send("*2\r\n$3\r\nGET\r\n$10000\r\nx")
			}
			require.True(t, p.closed())
			require.EqualValues(t, 1, s.Stats().TimedOut)
			require.Eventually(t, func() bool { return s.Stats().Clients == 0 }, time.Minute, time.Millisecond)
			require.Zero(t, s.Stats().ClientBytes)
		})
	}
}

func TestPatienceIsMeasuredPerRequest(t *testing.T) {
	clock := &testClock{now: time.Unix(1000, 0)}
	o := (&Options{RequestTimeout: 10 * time.Second}).withDefaults()
	q := newRequests(nil, 1<<20)
	q.authenticated = true
	var p patience
	due := func() (time.Duration, error) {
		p.wait(q, clock.Now)
		at, why := p.due(q, &o, false, clock.Now)
		return at.Sub(clock.Now()), why
	}
	at, why := p.due(q, &o, false, clock.Now)
	require.True(t, at.IsZero(), "a client that is between requests may be silent for ever")
	require.NoError(t, why)
	receive := func(text string) {
		q.makeRoom(max(q.room(), q.unread()+len(text)))
		q.end += copy(q.buf[q.end:], text)
	}
	receive("*2\r\n$3\r\nGET\r\n$40000\r\n")
	left, why := due()
	require.InDelta(t, 10*time.Second, left, float64(10*time.Millisecond))
	require.ErrorIs(t, why, errSlowRequest)
	clock.pause(9*time.Second, nil)
	receive("x")
	left, _ = due()
	require.InDelta(t, time.Second, left, float64(10*time.Millisecond), "a byte now and then is no progress")
	receive(strings.Repeat("x", 32<<10))
	left, _ = due()
	require.InDelta(t, 3*time.Second, left, float64(10*time.Millisecond), "long requests have longer")

	// Another request that is incomplete has its own time.
	receive(strings.Repeat("x", 40000-1-32<<10) + "\r\n*1\r\n")
	args, err := q.Next(true)
	require.NoError(t, err)
	require.Len(t, args, 2)
	args, err = q.Next(true)
	require.NoError(t, err)
	require.Nil(t, args)
	left, _ = due()
	require.InDelta(t, 10*time.Second, left, float64(10*time.Millisecond))
}

func TestAClientThatSendsManyRequestsCostsFewDeadlines(t *testing.T) {
	raw := strings.Repeat(encode("SET", "k", strings.Repeat("x", 3000)), 1000)
	c := &scripted{in: strings.NewReader(raw)}
	s, out := c.session(Options{})
	require.Equal(t, 1000, strings.Count(out, "+OK"))
	require.LessOrEqual(t, c.deadlines, 10)
	require.Zero(t, s.Stats().ClientBytes)
}

// 1,500 half requests held 390 MB.
func TestTheRequestsOfAllClientsAreBoundedTogether(t *testing.T) {
	bubble(t, func(t testing.TB) {
		s, addr := startServer(t, kvtest.New(1), Options{ClientBytes: 100_000, roomTime: time.Millisecond})
		half := fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000\r\n%s", strings.Repeat("x", 50_000))
		first := dial(t, "tcp", addr)
		first.send(half)
		require.Eventually(t, func() bool { return s.Stats().ClientBytes > 50_000 }, time.Minute, time.Millisecond)
		second := dial(t, "tcp", addr)
		_, _ = io.WriteString(second.nc, half)
		require.True(t, strings.HasPrefix(second.reply(),
			"-TRYAGAIN the requests and replies of clients of this node exceed 100000"))
		first.send(strings.Repeat("x", 10_000) + "\r\n")
		require.Equal(t, "+OK", first.reply())
		require.Equal(t, "+PONG", first.do("PING"))

		// Queues and watched keys count as well.
		queue := dial(t, "tcp", addr)
		require.Equal(t, "+OK", queue.do("MULTI"))
		var err error
		for i := 0; err == nil; i++ {
			require.Less(t, i, 100)
			_, err = io.WriteString(queue.nc, encode("SET", "k", strings.Repeat("x", 2000)))
			if err == nil {
				var reply string
				reply, err = readReply(queue.r)
				require.True(t, err != nil || reply == "+QUEUED" || strings.HasPrefix(reply, "-TRYAGAIN"), reply)
			}
		}
		for _, p := range []*peer{first, queue} {
			require.NoError(t, p.nc.Close())
		}
		require.Eventually(t, func() bool { return s.Stats().Clients == 0 }, time.Minute, time.Millisecond)
		require.Zero(t, s.Stats().ClientBytes, "everything is given back")
	})
}

func TestIdleConnectionsGiveLargeBuffersBack(t *testing.T) {
	s, addr := startServer(t, kvtest.New(1), Options{idleShrink: time.Millisecond})
	p := dial(t, "tcp", addr)
	nothing := func() bool { return s.Stats().ClientBytes == 0 }
	set := func() { require.Equal(t, "+OK", p.do("SET k "+strings.Repeat("x", 200_000))) }
	get := func() { require.Len(t, p.do("GET k"), 200_000) }
	for i, requests := range [][]func(){
		{set, get},
		{set},
		{get}, // a small request, after the buffers of a large one were given back
		{func() { require.Equal(t, "+OK", p.do("MSET"+strings.Repeat(" k v", 1000))) }},
		{func() { require.Equal(t, "+PONG", p.do("PING")) }},
	} {
		for _, request := range requests {
			request()
		}
		require.Eventually(t, nothing, time.Minute, 10*time.Millisecond, "case %d", i)
	}
}

func TestRequestsBeforeAUTHAreSmall(t *testing.T) {
	for raw, want := range map[string]string{
		"*11\r\n": "unauthenticated multibulk length",
		"*2\r\n$10000\r\n" + strings.Repeat("x", 10_000) + "\r\n$10000\r\n": "unauthenticated bulk length",
		strings.Repeat("x", maxUnauthRequest):                               "too big inline request",
		"*" + strings.Repeat("1", maxUnauthRequest):                         "too big mbulk count string",
	} {
		q := newRequests(strings.NewReader(raw), 1<<20)
		_, err := readAll(q, false)
		require.EqualError(t, err, "Protocol error: "+want)
		require.LessOrEqual(t, len(q.buf), 2*maxUnauthRequest)
	}
	q := newRequests(strings.NewReader(strings.Repeat(encode("AUTH", "wrong"), 10_000)), 1<<20)
	list, err := readAll(q, false)
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, list, 10_000)
	require.LessOrEqual(t, len(q.buf), maxUnauthRequest)
	q = newRequests(strings.NewReader("*"), 1<<20)
	_, _ = readAll(q, false)
	require.Equal(t, unauthBuffer, len(q.buf))
}

// A connection could try 363,000 passwords in a second, without a trace.
func TestWrongPasswordsOfAConnectionAreSlowAndFew(t *testing.T) {
	var logged bytes.Buffer
	s, clock, addr := startWithClock(t, Options{Password: "secret", Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	for _, line := range []string{"AUTH wrong-guess", "AUTH default wrong-guess", "HELLO 3 AUTH default wrong-guess", "AUTH other secret"} {
		p := dial(t, "tcp", addr)
		for i := range maxGuesses {
			before := clock.paused()
			require.Equal(t, "-"+wrongPassword, p.do(line))
			require.Equal(t, time.Duration(i+1)*guessDelay, clock.paused()-before, line)
		}
		require.True(t, p.closed())
		clock.pause(time.Minute, nil)
	}
	require.EqualValues(t, 4*maxGuesses, s.Stats().WrongPasswords)
	require.Equal(t, "+OK", dial(t, "tcp", addr).do("AUTH secret"))
	p := dial(t, "tcp", addr)
	p.do("AUTH secret")
	require.Contains(t, p.do("INFO stats"), "acl_access_denied_auth:40\r\n")
	require.NoError(t, s.Close())
	require.NotContains(t, logged.String(), "guess")
	require.NotContains(t, logged.String(), "secret")
	require.Contains(t, logged.String(), "clients gave wrong passwords")
	require.Less(t, strings.Count(logged.String(), "\n"), 10)
}

func TestManyConnectionsDoNotTryMorePasswords(t *testing.T) {
	s, clock, addr := startWithClock(t, Options{Password: "secret"})
	began := clock.Now()
	wrong := func() int64 { return s.Stats().WrongPasswords }
	for wrong() < 300 {
		p := dial(t, "tcp", addr)
		require.Equal(t, "-"+wrongPassword, p.do("AUTH wrong"))
		require.NoError(t, p.nc.Close())
	}
	require.GreaterOrEqual(t, clock.Now().Sub(began), (300-guessBurst)*guessInterval)
}

func TestGuessesAreCountedByAddress(t *testing.T) {
	g, now := guesses{logger: slog.New(slog.DiscardHandler)}, time.Unix(1000, 0)
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for range guessBurst + 1 {
		require.Zero(t, g.judge(one, true, now), "right ones are free")
		require.Zero(t, g.judge(one, false, now))
	}
	require.Equal(t, guessInterval, g.judge(one, false, now))
	require.Equal(t, guessInterval, g.judge(one, true, now), "the wait does not tell whether it is right")
	require.Zero(t, g.judge(other, false, now))
	require.Zero(t, g.judge(one, true, now.Add(guessInterval)))

	// Nobody gets further guesses by using many addresses, nor uses more memory.
	for i := range 10 * maxSources {
		g.judge(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), false, now)
	}
	require.LessOrEqual(t, len(g.until), maxSources+1)
	require.Positive(t, g.judge(netip.MustParseAddr("11.0.0.1"), true, now))
	require.Zero(t, g.judge(netip.MustParseAddr("11.0.0.1"), true, now.Add(time.Hour)))
	require.Zero(t, g.judge(netip.MustParseAddr("11.0.0.2"), false, now.Add(2*time.Hour)))

	ours, _ := net.Pipe()
	require.Equal(t, netip.Addr{}, source(ours))
	at := func(ip string) netip.Addr { return source(&remote{addr: &net.TCPAddr{IP: net.ParseIP(ip)}}) }
	require.Equal(t, at("2001:db8::1"), at("2001:db8::2"))
	require.NotEqual(t, at("2001:db8::1"), at("2001:db8:0:1::1"))
	require.NotEqual(t, at("192.0.2.1"), at("192.0.2.2"))
}

type remote struct {
	net.Conn
	addr net.Addr
}

func (r *remote) RemoteAddr() net.Addr { return r.addr }
