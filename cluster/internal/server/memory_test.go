package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/command"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// memoryRig is a server whose clients' connections have no buffers: what a client has not read, the server holds.
type memoryRig struct {
	t     testing.TB
	s     *Server
	clock *testClock
	log   syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newMemoryRig(t testing.TB, o Options) *memoryRig {
	rig := &memoryRig{t: t, clock: &testClock{now: time.Now()}}
	o.Logger = slog.New(slog.NewTextHandler(&rig.log, nil))
	rig.s = New(kvtest.New(1), o)
	rig.s.now = rig.clock.Now
	t.Cleanup(func() { require.NoError(t, rig.s.Close()) })
	return rig
}

func (rig *memoryRig) connect() *peer {
	ours, theirs := net.Pipe()
	rig.s.accept(theirs)
	rig.t.Cleanup(func() { ours.Close() })
	return &peer{t: rig.t, nc: ours, r: bufio.NewReader(ours)}
}

// until waits for what other goroutines do.
func (rig *memoryRig) until(condition func(s Stats) bool) {
	rig.t.Helper()
	require.Eventually(rig.t, func() bool { return condition(rig.s.Stats()) }, time.Minute, time.Millisecond, "%s",
		rig.log.String())
	require.LessOrEqual(rig.t, rig.s.Stats().ClientBytes, rig.s.memory.limit.Load())
}

// stall lets time pass until a client that has stalled for d is closed. The server may note since when one waits only
// after time has passed.
func (rig *memoryRig) stall(d time.Duration) {
	rig.t.Helper()
	rig.until(func(s Stats) bool {
		if s.Shed == 0 {
			rig.clock.pause(d, nil)
		}
		return s.Shed == 1
	})
}

// settle waits until no client holds much. A client has read a reply before the server knows that.
func (rig *memoryRig) settle() {
	rig.t.Helper()
	rig.until(func(s Stats) bool { return s.ClientBytes < 100<<10 })
}

// Sixteen clients that did not read their replies took a node to 1.5 GB.
func TestOfClientsThatDoNotReadTheLargestIsClosed(t *testing.T) {
	rig := newMemoryRig(t, Options{ClientBytes: 3584 << 10, roomTime: time.Minute})
	writer := rig.connect()
	for key, size := range map[string]int{"{k}1": 900 << 10, "{k}2": 1000 << 10, "{k}3": 10} {
		require.Equal(t, "+OK", writer.args("SET", key, strings.Repeat("x", size)))
	}
	require.NoError(t, writer.nc.Close())
	rig.until(func(s Stats) bool { return s.Clients == 0 && s.ClientBytes == 0 })
	var silent []*peer
	for i, key := range []string{"{k}1", "{k}2", "{k}1"} {
		p := rig.connect()
		p.send(encode("GET", key))
		rig.until(func(s Stats) bool { return s.ClientBytes > int64(i+1)*890<<10 })
		silent = append(silent, p)
	}
	last := rig.connect()
	last.send(encode("GET", "{k}1"))
	rig.until(func(s Stats) bool { return s.MemoryWaits == 1 })
	small := rig.connect()
	require.Equal(t, strings.Repeat("x", 10), small.do("GET {k}3"), "those that need little go on")
	require.Zero(t, rig.s.Stats().Shed, "the clients had no time to read")

	rig.stall(stalledReplies)
	require.Len(t, last.reply(), 900<<10)
	require.Contains(t, rig.log.String(), "closed a client, because the memory for clients is used up")
	require.Contains(t, rig.log.String(), "it does not read its replies")
	_, err := io.ReadAll(silent[1].nc)
	require.NoError(t, err)
	require.Len(t, silent[0].reply(), 900<<10, "one is enough")
	require.Len(t, silent[2].reply(), 900<<10)
	for _, p := range append(silent, last, small) {
		require.NoError(t, p.nc.Close())
	}
	rig.until(func(s Stats) bool { return s.Clients == 0 })
	require.Zero(t, rig.s.Stats().ClientBytes, "everything is given back")
}

// Sixteen clients with half a request of 60 MiB each held them for as long as they liked.
func TestOfClientsWithHalfARequestTheLargestIsClosed(t *testing.T) {
	rig := newMemoryRig(t, Options{ClientBytes: 1 << 20, MaxRequest: 1 << 19, roomTime: time.Minute})
	half := func(size int) *peer {
		p := rig.connect()
		p.send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s", 400<<10, strings.Repeat("x", size)))
		return p
	}
	large := half(300 << 10)
	rig.until(func(s Stats) bool { return s.ClientBytes > 500<<10 })
	little := half(150 << 10)
	rig.until(func(s Stats) bool { return s.ClientBytes > 700<<10 })
	done := make(chan error, 1)
	go func() {
		_, err := io.WriteString(little.nc, strings.Repeat("x", 250<<10)+"\r\n")
		done <- err
	}()
	rig.until(func(s Stats) bool { return s.MemoryWaits == 1 })
	require.Equal(t, "+PONG", rig.connect().do("PING"))
	require.Zero(t, rig.s.Stats().Shed)

	rig.stall(stalledRequest)
	require.NoError(t, <-done)
	require.Equal(t, "+OK", little.reply())
	require.True(t, large.closed())
	require.EqualValues(t, 1, rig.s.Stats().Shed)
	require.Contains(t, rig.log.String(), "it does not send the rest of a request")
}

// A client that reads again, or whose memory another one gives back, is served.
func TestAReplyWaitsForMemory(t *testing.T) {
	rig := newMemoryRig(t, Options{ClientBytes: 2 << 20, roomTime: time.Minute})
	a, b := rig.connect(), rig.connect()
	long := strings.Repeat("x", 1200<<10)
	require.Equal(t, "+OK", a.args("SET", "k", long[:500<<10]))
	require.Equal(t, ":1228800", a.args("APPEND", "k", long[500<<10:]))
	rig.clock.pause(time.Hour, nil)
	rig.settle()
	a.send(encode("GET", "k"))
	rig.until(func(s Stats) bool { return s.ClientBytes > 1100<<10 })
	for i, request := range [][]string{{"GET", "k"}, {"SET", "k", "short", "GET"}} {
		b.send(encode(request...))
		rig.until(func(s Stats) bool { return s.MemoryWaits == int64(i)+1 })
		require.Equal(t, long, a.reply())
		require.Equal(t, long, b.reply())
		rig.settle()
		if i == 0 {
			a.send(encode("GET", "k"))
			rig.until(func(s Stats) bool { return s.ClientBytes > 1100<<10 })
		}
	}
	require.Equal(t, "short", b.do("GET k"))

	require.Equal(t, "+OK", b.args("SET", "k", long[:1000<<10]))
	rig.settle()
	a.send(encode("GET", "k"))
	rig.until(func(s Stats) bool { return s.ClientBytes > 900<<10 })
	for _, request := range []string{"MULTI", "SET {k}2 1", "GET k", "GET {k}2"} {
		require.True(t, strings.HasPrefix(b.do(request), "+"))
	}
	b.send(encode("EXEC"))
	rig.until(func(s Stats) bool { return s.MemoryWaits == 3 })
	require.Len(t, a.reply(), 1000<<10)
	require.Equal(t, "[+OK "+long[:1000<<10]+" 1]", b.reply())
	require.Zero(t, rig.s.Stats().Shed)
}

// A reply for which there never is memory is an error, and the command has written nothing.
func TestAReplyWithoutMemoryIsAnError(t *testing.T) {
	rig := newMemoryRig(t, Options{ClientBytes: 1 << 20})
	p := rig.connect()
	part := strings.Repeat("x", 400<<10)
	for _, key := range []string{"{k}1", "{k}2", "{k}3"} {
		require.Equal(t, "+OK", p.args("SET", key, part))
	}
	for _, request := range []string{"MGET {k}1 {k}2 {k}3", "RANGE {k} {k}z"} {
		require.Equal(t, "-"+errNoRoom.Error(), p.do(request))
	}
	require.Equal(t, "+OK", p.do("MULTI"))
	for _, request := range []string{"SET {k}1 new", "GET {k}2", "GET {k}3", "GET {k}2"} {
		require.Equal(t, "+QUEUED", p.do(request))
	}
	require.Equal(t, "-"+errNoRoom.Error(), p.do("EXEC"))
	require.Equal(t, part, p.do("GET {k}1"))
	require.Equal(t, ":3", p.do("APPEND {k}4 abc"))
	require.Equal(t, "-"+errNoRoom.Error(), p.do("LCS {k}1 {k}4"))
	require.Equal(t, "+PONG", p.do("PING"))
	require.LessOrEqual(t, rig.s.Stats().ClientBytes, int64(1<<20))
}

// The keys of a reply are counted, and not only long values.
func TestRepliesOfManyKeysAreCounted(t *testing.T) {
	rig := newMemoryRig(t, Options{ClientBytes: 8 << 20})
	p := rig.connect()
	for i := range 100 {
		p.do(fmt.Sprintf("SET {k}%d%s 1", i, strings.Repeat("x", 1000)))
	}
	q := rig.connect()
	before := rig.s.Stats().ClientBytes
	q.send(encode("KEYS", "*"))
	rig.until(func(s Stats) bool { return s.ClientBytes > before+90_000 })
}

// A thousand clients that asked for one long value at once used the memory for a thousand copies, although few of them
// could have their reply. The first read of a key is free, as nobody knows its length.
func TestAReadOfALongValueTakesItsMemoryFirst(t *testing.T) {
	rig := newMemoryRig(t, Options{ClientBytes: 16 << 20, roomTime: time.Millisecond})
	p := rig.connect()
	long := strings.Repeat("x", 4<<20)
	require.Equal(t, "+OK", p.args("SET", "k", long))
	require.Equal(t, "+OK", p.do("SET short 1"))
	r := request{args: [][]byte{[]byte("GET"), []byte("k")}}
	r.command, _ = command.Lookup([]byte("get"))
	require.Equal(t, 4<<20, rig.s.large.expect(r))
	require.NoError(t, p.nc.Close())
	rig.until(func(s Stats) bool { return s.Clients == 0 })
	p, q := rig.connect(), rig.connect()
	require.Equal(t, long, p.do("GET k"))
	rig.settle()
	q.send(encode("GET", "k")) // it is not read
	rig.until(func(s Stats) bool { return s.ClientBytes > 3<<20 && s.ClientBytes < 5<<20 })
	require.Equal(t, "-"+errNoRoom.Error(), p.do("GET k"), "4 MiB for the reply, and 8 to read it")
	require.Equal(t, ":1", p.do("EXISTS short"))
	require.Equal(t, long, q.reply())
	for i := range maxLargeKeys + 10 {
		rig.s.large.note(r.command, [][]byte{nil, []byte(fmt.Sprint(i))}, largeValue)
	}
	require.Len(t, rig.s.large.sizes, maxLargeKeys)
}

// Many that ask for too much at the same time do not keep others from a little, nor is anything lost.
func TestAChargeThatIsRefusedDisturbsNoOther(t *testing.T) {
	b := &budget{}
	b.limit.Store(1 << 20)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := &charge{budget: b}
			for range 10_000 {
				c.set(1 << 20)
			}
		})
		wg.Go(func() {
			c := &charge{budget: b}
			for i := range 10_000 {
				if !c.set(int64(i % 100)) {
					t.Error("a small charge was refused")
				}
			}
			c.force(0)
		})
	}
	wg.Wait()
	require.Zero(t, b.used.Load())
}

// A million arguments of a byte need 24 bytes each besides. They stay until the replies are sent, which may take long.
func TestArgumentsAreCounted(t *testing.T) {
	const args = 100_000
	s := New(kvtest.New(1), Options{})
	defer s.Close()
	client, nc := net.Pipe()
	defer client.Close()
	go func() {
		_, _ = io.WriteString(client, "*100000\r\n"+strings.Repeat("$1\r\na\r\n", args)+"QUIT\r\n")
		client.Close()
	}()
	c := newConn(s, nc, 1)
	for {
		require.NoError(t, c.fill())
		got, err := c.in.Next(true)
		require.NoError(t, err)
		if got != nil {
			require.Len(t, got, args)
			break
		}
	}
	before := s.Stats().ClientBytes
	c.countArgs()
	require.Greater(t, s.Stats().ClientBytes-before, int64((args-manyArgs)*argBytes-1))
	for c.fill() == nil { // to the end
	}
	require.Less(t, s.Stats().ClientBytes, before)
}

// The replies of a pipeline do not wait for memory one after the other.
func TestAPipelineWaitsForMemoryOnce(t *testing.T) {
	rig := newMemoryRig(t, Options{ClientBytes: 4 << 20, roomTime: 10 * time.Millisecond})
	p := rig.connect()
	require.Equal(t, "+OK", p.args("SET", "k", strings.Repeat("x", 1<<19)))
	require.Equal(t, ":1048577", p.args("APPEND", "k", strings.Repeat("x", 1<<19+1)))
	other := charge{budget: &rig.s.memory}
	other.force(3 << 20)
	go p.send(strings.Repeat(encode("GET", "k")+encode("SET", "k", "y", "GET"), 4))
	for range 8 {
		require.Equal(t, "-"+errNoRoom.Error(), p.reply())
	}
	require.Less(t, rig.s.Stats().MemoryWaits, int64(8))
	other.force(0)
	require.Len(t, p.do("GET k"), 1<<20+1)
}

// A command that writes does not wait for memory until its client may have sent it again.
func TestAWriteWaitsForMemoryOnlyInItsTime(t *testing.T) {
	bubble(t, func(t testing.TB) {
		rig := newMemoryRig(t, Options{ClientBytes: 4 << 20, roomTime: time.Hour, WriteTimeout: 300 * time.Millisecond})
		p := rig.connect()
		require.Equal(t, "+OK", p.args("SET", "k", strings.Repeat("x", 1<<19)))
		other := charge{budget: &rig.s.memory}
		other.force(4<<20 - 1<<18)
		require.Equal(t, "-"+errNoRoom.Error(), p.do("SET k y GET"))
		for _, request := range []string{"MULTI", "INCR {k}n", "GET k"} {
			require.True(t, strings.HasPrefix(p.do(request), "+"))
		}
		require.Equal(t, "-"+errNoRoom.Error(), p.do("EXEC"))
		require.Equal(t, "nil", p.do("GET {k}n"))
		other.force(0)
	})
}

// The table of LCS is no part of the reply: memory for it once is enough.
func TestLCSWaitsForTheMemoryOfItsTable(t *testing.T) {
	rig := newMemoryRig(t, Options{ClientBytes: 16 << 20, roomTime: time.Minute})
	p := rig.connect()
	require.Equal(t, "+OK", p.args("MSET", "{k}a", strings.Repeat("x", 1000), "{k}b", strings.Repeat("x", 1500)))
	other := charge{budget: &rig.s.memory}
	for _, request := range []string{"LCS {k}a {k}b", "EXEC"} {
		if request == "EXEC" {
			for _, queued := range []string{"MULTI", "LCS {k}a {k}b", "LCS {k}a {k}b", "INCR {k}n"} {
				require.True(t, strings.HasPrefix(p.do(queued), "+"))
			}
		}
		other.force(10 << 20)
		waits := rig.s.Stats().MemoryWaits
		p.send(encode(words(request)...))
		rig.until(func(s Stats) bool { return s.MemoryWaits == waits+1 })
		other.force(7 << 20) // 8 MiB are left, and the table has 6
		require.Contains(t, p.reply(), strings.Repeat("x", 1000))
		require.Equal(t, waits+1, rig.s.Stats().MemoryWaits)
	}
	require.Equal(t, "+PONG", p.do("PING"))
	require.Less(t, rig.s.Stats().ClientBytes, int64(8<<20))
}

// A reply of many short values does not make them long ones, and a key whose value is short again is forgotten.
func TestOnlyLongValuesAreRememberedAsSuch(t *testing.T) {
	s, addr := startServer(t, kvtest.New(1), Options{})
	p := dial(t, "tcp", addr)
	mget := []string{"MGET"}
	for i := range 20 {
		mget = append(mget, fmt.Sprint("{k}", i))
		require.Equal(t, "+OK", p.args("SET", mget[i+1], strings.Repeat("x", 100<<10)))
	}
	require.Len(t, p.args(mget...), 20*(100<<10)+2+19)
	require.Empty(t, s.large.sizes)
	require.Equal(t, "+OK", p.args("SET", "{k}0", strings.Repeat("x", 1<<20+1)))
	require.Equal(t, ":1048577", p.do("STRLEN {k}0"))
	require.Len(t, s.large.sizes, 1)
	require.Equal(t, "+OK", p.do("SET {k}0 short"))
	require.Equal(t, "short", p.do("GET {k}0"))
	require.Empty(t, s.large.sizes)
}

// A client that does not end its transaction holds memory as one that does not end a request.
func TestOfClientsWithHalfATransactionTheLargestIsClosed(t *testing.T) {
	bubble(t, func(t testing.TB) {
		rig := newMemoryRig(t, Options{ClientBytes: 2 << 20, MaxRequest: 1 << 20, roomTime: 20 * time.Second})
		a, b, c := rig.connect(), rig.connect(), rig.connect()
		part := strings.Repeat("x", 250<<10)
		for _, p := range []*peer{a, c} {
			require.Equal(t, "+OK", p.do("MULTI"))
			require.Equal(t, "+QUEUED", p.args("SET", "k", part))
		}
		for range 3 {
			require.Equal(t, "+QUEUED", a.args("SET", "k", part))
		}
		rig.until(func(s Stats) bool { return s.ClientBytes < 1400<<10 })
		rig.clock.pause(time.Hour, nil)
		require.Equal(t, "+OK", b.args("SET", "k", part+part+part))
		require.EqualValues(t, 1, rig.s.Stats().Shed)
		require.True(t, a.closed())
		require.Equal(t, "[+OK]", c.do("EXEC"))
	})
}
