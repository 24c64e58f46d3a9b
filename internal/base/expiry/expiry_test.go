package expiry

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

// A worked example of docs/format.md.
func TestTheBytesOfAnEnvelope(t *testing.T) {
	require.Equal(t, "fe 00 68 e5 cf 8b 01 "+"74 c9"+" 76", fmt.Sprintf("% x", Append(nil, 1_700_000_000_000, []byte("v"))))
	require.Equal(t, "fe 00 00 00 00 00 00 "+"30 47", fmt.Sprintf("% x", Append(nil, Never, nil)))
}

func TestEnvelopesAreDecoded(t *testing.T) {
	for _, at := range []uint64{Never, 1, 255, 256, 1_700_000_000_000, MaxTime - 1, MaxTime} {
		for _, value := range []string{"", "v", "\xfe\x00"} {
			sealed := Append([]byte("before"), at, []byte(value))[len("before"):]
			got, ok := Decode(sealed)
			require.True(t, ok)
			require.Equal(t, at, got)
			require.Equal(t, value, string(sealed[HeaderLen:]))
		}
	}
	later, ok := Decode(Append(nil, math.MaxUint64, nil))
	require.True(t, ok)
	require.Equal(t, uint64(MaxTime), later, "a later time is clamped")
}

// Values that are no envelopes are recognized: text, numbers, short ones, and envelopes with one wrong bit.
func TestOtherValuesAreNoEnvelopes(t *testing.T) {
	sealed := Append(nil, 1_700_000_000_000, []byte("v"))
	cases := [][]byte{nil, {tag}, sealed[:HeaderLen-1], []byte("some text that is long enough"), make([]byte, 20), bytes.Repeat([]byte{tag}, 20)}
	for n := range uint64(256) { // structures of small numbers
		cases = append(cases, append([]byte{byte(n)}, make([]byte, 15)...))
	}
	for bit := range 8 * HeaderLen {
		flipped := bytes.Clone(sealed)
		flipped[bit/8] ^= 1 << (bit % 8)
		cases = append(cases, flipped)
	}
	for _, value := range cases {
		_, ok := Decode(value)
		require.False(t, ok, "% x", value)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Append(nil, Never, []byte("value")))
	f.Add(Append(nil, MaxTime, nil))
	f.Add([]byte("no envelope, but long enough"))
	f.Fuzz(func(t *testing.T, value []byte) {
		at, ok := Decode(value)
		if !ok {
			return
		}
		require.LessOrEqual(t, at, uint64(MaxTime))
		require.Equal(t, value, Append(nil, at, value[HeaderLen:]), "what is accepted is written back")
	})
}

func TestKeysUnderPrefixes(t *testing.T) {
	require.False(t, New(nil, nil).Under([]byte("a")))
	require.True(t, New([][]byte{{}}, nil).Under(nil), "the empty prefix is for all keys")
	rnd := rand.New(rand.NewPCG(1, 1))
	word := func() []byte {
		w := make([]byte, rnd.IntN(5))
		for i := range w {
			w[i] = "ab\xff"[rnd.IntN(3)]
		}
		return w
	}
	for range 300 {
		prefixes := make([][]byte, 1+rnd.IntN(6))
		for i := range prefixes {
			prefixes[i] = append(word(), 'a')
		}
		p := New(prefixes, nil)
		for range 50 {
			key, want := word(), false
			for _, prefix := range prefixes {
				want = want || bytes.HasPrefix(key, prefix)
			}
			require.Equal(t, want, p.Under(key), "%q under %q", key, prefixes)
		}
	}
}

func TestRangesUnderOnePrefix(t *testing.T) {
	p := New([][]byte{[]byte("a"), []byte("b"), []byte("bb")}, nil)
	for _, c := range []struct {
		start, end string
		want       bool
	}{{"a", "az", true}, {"a", "a", true}, {"b", "bbz", true}, {"a", "b", false}, {"a", "c", false}, {"A", "a", false}} {
		require.Equal(t, c.want, p.CoversRange([]byte(c.start), []byte(c.end)), c)
	}
	require.Equal(t, New([][]byte{[]byte("b"), []byte("a")}, nil).Sum(), p.Sum(), "the same keys")
	require.NotEqual(t, New([][]byte{[]byte("ab")}, nil).Sum(), p.Sum())
}

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }

func TestTimeNeverGoesBack(t *testing.T) {
	c := &clock{now: at(5000)}
	p := New([][]byte{{}}, c.read)
	require.EqualValues(t, 1, p.Seen(), "the clock was not read yet")
	require.EqualValues(t, 5000, p.Now())
	c.set(at(4000))
	require.EqualValues(t, 5000, p.Now())
	require.EqualValues(t, 7000, p.Advance(7000), "what an earlier opening recorded")
	c.set(at(6000))
	require.EqualValues(t, 7000, p.Now())
	require.Equal(t, at(7000), p.Time())
	c.set(time.Unix(1<<60, 0))
	require.Equal(t, uint64(MaxTime), p.Now())
	var none *Policy
	require.Zero(t, none.Now()+none.Seen()+none.Advance(3)+none.Hidden()+none.Sum())
	require.Zero(t, none.Time())
}

// A value is hidden from the first millisecond on that is at least its time to live from now.
func TestDeadlines(t *testing.T) {
	for _, c := range []struct {
		now  time.Time
		ttl  time.Duration
		want uint64
	}{
		{at(5000), time.Second, 6000},
		{at(5000), time.Nanosecond, 5001},
		{at(5000).Add(1), time.Millisecond, 5002},
		{at(5000).Add(999_999), time.Nanosecond, 5001},
		{at(5000), math.MaxInt64, 5000 + math.MaxInt64/1_000_000 + 1},
		{time.UnixMilli(MaxTime - 5), time.Second, MaxTime},
		{time.Unix(1<<60, 0), math.MaxInt64, MaxTime},
	} {
		p := New([][]byte{[]byte("p")}, func() time.Time { return c.now })
		sealed := result.Of(p.Seal(nil, []byte("p1"), []byte("v"), c.ttl))(t)
		got, ok := Decode(sealed)
		require.True(t, ok)
		require.Equal(t, c.want, got, "%v from %v", c.ttl, c.now)
	}
	c := &clock{now: at(9000)}
	p := New([][]byte{[]byte("p")}, c.read)
	p.Now()
	c.set(at(8000))
	sealed := result.Of(p.Seal(nil, []byte("p1"), nil, time.Second))(t)
	got, _ := Decode(sealed)
	require.EqualValues(t, 10000, got, "from the time of the store, not of the clock")
}

func TestValuesAreSealedAndOpened(t *testing.T) {
	c := &clock{now: at(5000)}
	p := New([][]byte{[]byte("p")}, c.read)
	value := []byte("v")
	plain := result.Of(p.Seal(nil, []byte("k"), value, 0))(t)
	require.Same(t, &value[0], &plain[0], "not copied")
	opened, alive, err := p.Open([]byte("k"), value, 0)
	require.NoError(t, err)
	require.True(t, alive)
	require.Same(t, &value[0], &opened[0])
	lasting := result.Of(p.Seal(nil, []byte("p"), value, 0))(t)
	short := result.Of(p.Seal(nil, []byte("p"), value, time.Second))(t)
	_, ok := p.Deadline([]byte("p"), lasting)
	require.False(t, ok)
	deadline, ok := p.Deadline([]byte("p"), short)
	require.True(t, ok)
	require.EqualValues(t, 6000, deadline)
	_, ok = p.Deadline([]byte("k"), short)
	require.False(t, ok, "not under the prefix")
	c.set(at(5999))
	_, alive, err = p.Open([]byte("p"), short, 0)
	require.NoError(t, err)
	require.True(t, alive)
	c.set(at(6000))
	_, alive, err = p.Open([]byte("p"), short, 0)
	require.NoError(t, err)
	require.False(t, alive)
	opened, alive, err = p.Open([]byte("p"), short, 5999)
	require.NoError(t, err)
	require.True(t, alive, "for a reader of that time")
	require.Equal(t, "v", string(opened))
	opened, alive, err = p.Open([]byte("p"), lasting, 0)
	require.NoError(t, err)
	require.True(t, alive)
	require.Equal(t, "v", string(opened))
	_, _, err = p.Open([]byte("p"), value, 0)
	require.Equal(t, ErrNoEnvelope, err)
}

func TestWhatCannotBeSealedIsRefused(t *testing.T) {
	p := New([][]byte{[]byte("p")}, func() time.Time { return time.Time{} })
	_, err := p.Seal(nil, []byte("k"), nil, time.Second)
	require.ErrorContains(t, err, "under none of Options.Expiry.Prefixes")
	_, err = (*Policy)(nil).Seal(nil, []byte("p"), nil, time.Second)
	require.ErrorContains(t, err, "under none of Options.Expiry.Prefixes")
	_, err = p.Seal(nil, []byte("p"), nil, -1)
	require.ErrorContains(t, err, "the time to live is -1ns; it must be positive")
	require.ErrorContains(t, CheckTTL(0), "it must be positive")
	_, err = p.Seal(nil, []byte("p"), nil, time.Second)
	require.ErrorContains(t, err, "Options.Expiry.Clock returned 0001-01-01 00:00:00 +0000 UTC; it must be after 1970")
	require.NoError(t, result.Err(p.Seal(nil, []byte("p"), nil, 0)), "a value that does not expire needs no clock")
}

// A store that recorded prefixes gets only those that are for more keys.
func TestPrefixesAreJoined(t *testing.T) {
	bytesOf := func(all ...string) (prefixes [][]byte) {
		for _, s := range all {
			prefixes = append(prefixes, []byte(s))
		}
		return prefixes
	}
	for _, c := range []struct{ recorded, asked, all, added [][]byte }{
		{bytesOf("b"), nil, bytesOf("b"), nil},
		{nil, bytesOf("b", "a"), bytesOf("a", "b"), bytesOf("a", "b")},
		{bytesOf("b"), bytesOf("b", "b/c"), bytesOf("b"), nil},
		{bytesOf("b/c", "d"), bytesOf("b", "e"), bytesOf("b", "d", "e"), bytesOf("b", "e")},
		{bytesOf("b"), bytesOf(""), bytesOf(""), bytesOf("")},
	} {
		all, added := Join(c.recorded, c.asked)
		require.Equal(t, c.all, all)
		require.Equal(t, c.added, added)
	}
}

func TestTimesToLiveOfABatch(t *testing.T) {
	var a, b TTLs
	require.NoError(t, a.Add(0, time.Second))
	a.AddUntil(2, 77)
	require.ErrorContains(t, b.Add(1, -time.Second), "must be positive")
	a.Append(5, b)
	all := a
	for entry, want := range []entryTTL{{ttl: time.Second}, {}, {until: 77}, {}, {}, {}, {ttl: -time.Second}, {}} {
		ttl, until := all.Next(entry)
		require.Equal(t, want.ttl, ttl, "entry %d", entry)
		if want.until > 0 {
			require.Equal(t, want.until, until, "entry %d", entry)
		} else {
			require.Equal(t, uint64(Never), until, "entry %d", entry)
		}
	}
	require.Len(t, a, 3, "Next is called on a copy")
}

func TestTimesAreCompared(t *testing.T) {
	require.EqualValues(t, 3, Earlier(3, 5))
	require.EqualValues(t, 3, Earlier(5, 3))
	require.EqualValues(t, 3, Earlier(Never, 3))
	require.EqualValues(t, 3, Earlier(3, Never))
	require.EqualValues(t, Never, Earlier(Never, Never))
	require.Equal(t, 2*time.Millisecond, Remaining(5, 3))
	require.Zero(t, Remaining(Never, 3), "for ever")
	require.Zero(t, Remaining(3, 5), "it is over")
	require.Greater(t, Remaining(MaxTime, 0), time.Duration(math.MaxInt64/2))
}

func TestWhatAPolicyDoesWithAPut(t *testing.T) {
	p := New([][]byte{[]byte("s/")}, func() time.Time { return time.UnixMilli(1000) })
	require.NoError(t, p.CheckPut([]byte("s/a"), time.Second))
	require.ErrorContains(t, p.CheckPut([]byte("s/a"), 0), "must be positive")
	require.ErrorContains(t, p.CheckPut([]byte("t/a"), time.Second), "under none of Options.Expiry.Prefixes")

	require.Equal(t, "v", string(p.SealUntil(nil, []byte("t/a"), []byte("v"), 77)))
	sealed := p.SealUntil(nil, []byte("s/a"), []byte("v"), 77)
	at, ok := p.Deadline([]byte("s/a"), sealed)
	require.True(t, ok)
	require.EqualValues(t, 77, at)
	deadline, keys := p.ForTables()
	at, ok = deadline([]byte("s/a"), sealed)
	require.True(t, ok && at == 77 && keys == p.Sum())
	deadline, keys = (*Policy)(nil).ForTables()
	require.True(t, deadline == nil && keys == 0)

	p.CountHidden(3)
	require.EqualValues(t, 3, p.Hidden())
	require.Zero(t, (*Policy)(nil).Hidden())
}
