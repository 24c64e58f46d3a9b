package command

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
	"github.com/sievedb/sievedb/cluster/internal/layout"
)

func arguments(line string) (args [][]byte) {
	for _, w := range strings.Split(line, " ") {
		args = append(args, []byte(w))
	}
	return args
}

func TestCommandsAreFoundInAnyCase(t *testing.T) {
	for _, name := range []string{"get", "GET", "gEt"} {
		c, ok := Lookup([]byte(name))
		require.True(t, ok)
		require.Equal(t, "get", c.Name)
	}
	for _, name := range []string{"", "nothing", strings.Repeat("x", 1000), "raft.", "raftx"} {
		_, ok := Find([]byte(name))
		require.False(t, ok, name)
	}
	c, ok := Find([]byte("RAFT.nodes"))
	require.True(t, ok)
	require.Equal(t, OfOperator, c.Kind)
	require.Zero(t, testing.AllocsPerRun(10, func() { Lookup([]byte("GETRANGE")) }))
}

func TestEachCommandCanBeEvaluated(t *testing.T) {
	for _, c := range All() {
		require.Equal(t, c.Kind == Reads, c.read != nil, c.Name)
		require.Equal(t, c.Kind == Writes, c.write != nil, c.Name)
		require.LessOrEqual(t, len(c.Name), maxName)
		require.NotEmpty(t, c.Summary, c.Name)
		if c.Kind == Reads || c.Kind == Writes {
			require.Positive(t, c.First, c.Name)
		}
	}
}

func TestKeysAreFoundByTheirPositions(t *testing.T) {
	for line, want := range map[string]string{
		"get a": "a", "mset a 1 b 2": "a b", "del a b c": "a b c", "rename a b": "a b", "copy a b db 0": "a b", "ping": "",
		"mset a 1 b": "a b", "watch a b": "a b", "set a b ex 1": "a",
	} {
		args := arguments(line)
		c, ok := Lookup(args[0])
		require.True(t, ok)
		var keys []string
		require.NoError(t, c.Keys(args, func(key []byte) error {
			keys = append(keys, string(key))
			return nil
		}))
		require.Equal(t, want, strings.Join(keys, " "), line)
	}
}

func TestKeysOfSeveralSlotsAreRefused(t *testing.T) {
	mget, _ := Lookup([]byte("mget"))
	slot, found, err := mget.Slot(arguments("mget foo x{foo} {foo}y"))
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 12182, slot)
	_, _, err = mget.Slot(arguments("mget foo bar"))
	require.ErrorIs(t, err, ErrCrossSlot)

	longest := strings.Repeat("x", layout.MaxKey)
	_, _, err = mget.Slot([][]byte{[]byte("mget"), []byte(longest)})
	require.NoError(t, err)
	_, _, err = mget.Slot([][]byte{[]byte("mget"), []byte(longest + "x")})
	require.ErrorIs(t, err, ErrLongKey)
	require.ErrorContains(t, err, "1048512")
	require.Equal(t, 1048512, layout.MaxKey)
}

func TestIntegersAreParsedAsByRedis(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "-1": -1, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		n, ok := ParseInt([]byte(s))
		require.True(t, ok, s)
		require.Equal(t, want, n)
	}
	for _, s := range []string{"", "-", "-0", "01", "+1", " 1", "1 ", "1.0", "0x1", "9223372036854775808", "-9223372036854775809",
		"99999999999999999999", "18446744073709551617"} {
		_, ok := ParseInt([]byte(s))
		require.False(t, ok, s)
	}
}

// The wanted texts are those that redis-server 7.0.15 replied on x86.
func TestFloatsAreWrittenAsByRedis(t *testing.T) {
	for s, want := range map[string]string{
		"0.1": "0.1", "-0": "0", "1e3": "1000", "3.0": "3", "1e-17": "0.00000000000000001", "1e-18": "0", "1e-4940": "0", ".5": "0.5",
		"5.": "5", "0x10": "16", "0x1p-1": "0.5", "123456789.123456789": "123456789.12345678899873747", "1e20": "100000000000000000000",
	} {
		f, ok := parseFloat([]byte(s))
		require.True(t, ok, s)
		require.Equal(t, want, formatFloat(f), s)
	}
	for _, s := range []string{"", ".", "e", "1e", "1e+", "nan", " 1", "1 ", "1_0", "0x", "0x1p", "1e99999999999999999999", "1e-99999",
		"1e5000", "--1", "1p3", strings.Repeat("1", longDoubleMaxChars)} {
		_, ok := parseFloat([]byte(s))
		require.False(t, ok, s)
	}
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"", "", true}, {"", "a", false}, {"h?llo", "hello", true}, {"h?llo", "hllo", false},
		{"h*llo", "heeello", true}, {"h[ae]llo", "hallo", true}, {"h[ae]llo", "hillo", false}, {"h[^e]llo", "hallo", true},
		{"h[^e]llo", "hello", false}, {"h[a-c]llo", "hbllo", true}, {"h[c-a]llo", "hbllo", true}, {`h\*llo`, "h*llo", true},
		{`h\*llo`, "hello", false}, {"a*b*c", "aXbYc", true}, {"a*b*c", "aXcYb", false}, {"[a", "a", true}, {`[\]]`, "]", true},
		{"*a", "aaaa", true}, {"**", "x", true}, {"a[", "a", false}, {`a\`, `a\`, true},
	} {
		require.Equal(t, c.want, MatchGlob([]byte(c.pattern), []byte(c.s)), "%q %q", c.pattern, c.s)
	}
}

// The longest pattern and the longest key took 15 s.
func TestTheTimeOfAGlobIsThatOfItsString(t *testing.T) {
	s := []byte(strings.Repeat("a", 1<<20))
	for _, pattern := range []string{
		hostile, "*" + strings.Repeat("a", MaxPattern-2) + "b", strings.Repeat("*a", MaxPattern/2-1) + "*b",
		"*" + strings.Repeat("[^b]", MaxPattern/4-1) + "b", "*[" + strings.Repeat("a", MaxPattern-4) + "]b",
	} {
		require.Empty(t, PatternTooLong([]byte(pattern)))
		g := newGlob([]byte(pattern))
		require.False(t, g.match(s))
		require.LessOrEqual(t, g.work(len(s)), len(s)*(1+MaxPattern/64))
	}
}

// plainGlob is a matcher that tries the pattern at each position.
func plainGlob(pattern, s []byte) bool {
	if len(pattern) == 0 {
		return len(s) == 0
	}
	if pattern[0] == '*' {
		return plainGlob(pattern[1:], s) || len(s) > 0 && plainGlob(pattern, s[1:])
	}
	next, only := 1, pattern[0]
	switch pattern[0] {
	case '[':
		var in byteSet
		in, next = parseSet(pattern, 1)
		return len(s) > 0 && in.has(s[0]) && plainGlob(pattern[next:], s[1:])
	case '?':
		return len(s) > 0 && plainGlob(pattern[1:], s[1:])
	case '\\':
		if len(pattern) > 1 {
			next, only = 2, pattern[1]
		}
	}
	return len(s) > 0 && s[0] == only && plainGlob(pattern[next:], s[1:])
}

func TestRandomGlobsMatchWhatPlainOnesDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(from string, length int) (b []byte) {
		for range length {
			b = append(b, from[r.IntN(len(from))])
		}
		return b
	}
	for range 20_000 {
		pattern, s := pick(`aab*?[]^-\`, r.IntN(10)), pick("aab-", r.IntN(12))
		require.Equal(t, plainGlob(pattern, s), MatchGlob(pattern, s), "%q %q", pattern, s)
	}
	// Parts with more bytes than a word has bits.
	for range 300 {
		pattern := append(append([]byte("*?"), pick("ab?", 60+r.IntN(140))...), '*', 'b')
		s := append(pick("ab", r.IntN(100)), bytes.ReplaceAll(pattern[1:len(pattern)-2], []byte("?"), []byte("a"))...)
		require.True(t, MatchGlob(pattern, append(s, "ab"...)), "%q %q", pattern, s)
	}
}

func FuzzGlob(f *testing.F) {
	f.Add([]byte("a[b-"), []byte("ab"))
	f.Add([]byte(`*\`), []byte("x"))
	f.Fuzz(func(t *testing.T, pattern, s []byte) {
		if len(pattern) < 16 && len(s) < 16 { // the plain one is exponential
			require.Equal(t, plainGlob(pattern, s), MatchGlob(pattern, s))
		}
		if MatchGlob(pattern, s) {
			require.True(t, MatchGlob(append([]byte("*"), pattern...), s))
		}
		var literal []byte
		for _, b := range s {
			literal = append(literal, '\\', b)
		}
		require.True(t, MatchGlob(literal, s))
	})
}

// A write that only fails must write nothing: its entry would be empty.
func TestACommandWithAnErrorWritesNothing(t *testing.T) {
	g, _ := kvtest.New(1).Group(0)
	for _, line := range []string{
		"set k v ex 0", "set k v bad", "incr text", "incrby n x", "setrange k -1 x", "setrange k 100 x", "append text " +
			strings.Repeat("x", 100), "setbit k 1 2", "setbit k 800 1", "mset k", "msetnx k v k", "expire text x",
		"set text v ifeq x nx", "set text v ifdeq x", "set text v ifeq", "delex text ifeq", "delex text if x", "delex text ifdne 0",
		"rename absent k", "copy text text", "getex text ex 0", "setex k 0 v", "incrbyfloat text 1", "set k v nx xx",
	} {
		args := arguments(line)
		c, ok := Lookup(args[0])
		require.True(t, ok)
		reply := &Reply{}
		_, err := g.Update(t.Context(), func(tx kv.Tx) error {
			tx.Put([]byte("text"), kv.Value{Data: []byte("text")})
			recorder := &countingTx{Tx: tx}
			err := c.Evaluate(&Call{Args: args, Reply: reply, Limits: Limits{MaxValue: 100, MaxReply: 100}}, recorder)
			require.Zero(t, recorder.writes, line)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, "-", string(reply.Bytes[:1]), "%s: %s", line, reply.Bytes)
	}
}

type countingTx struct {
	kv.Tx
	writes int
}

func (t *countingTx) Put(key []byte, v kv.Value) { t.writes++ }
func (t *countingTx) Delete(key []byte)          { t.writes++ }
func (t *countingTx) DeleteAll()                 { t.writes++ }

// brokenReader fails as a damaged store does.
type brokenReader struct{ kv.Tx }

var errBroken = errors.New("broken")

func (brokenReader) Now() int64                         { return 0 }
func (brokenReader) Get([]byte) (kv.Value, bool, error) { return kv.Value{}, false, errBroken }
func (brokenReader) Put([]byte, kv.Value)               { panic("a command wrote after a failed read") }
func (brokenReader) Delete([]byte)                      { panic("a command deleted after a failed read") }
func (brokenReader) Scan(uint16, []byte, []byte, bool, func([]byte, kv.Value) bool) error {
	return errBroken
}

func TestAFailedReadIsTheErrorOfEachCommand(t *testing.T) {
	for _, line := range []string{
		"get k", "mget k", "strlen k", "getrange k 0 1", "getbit k 1", "bitcount k", "exists k", "touch k", "type k", "ttl k",
		"range a{k} b{k}", "revrange a{k} b{k}", "setnx k v", "set k v nx", "getset k v", "getdel k", "getex k", "msetnx k v",
		"incr k", "incrbyfloat k 1", "append k v", "setrange k 0 v", "cas k a b", "setbit k 0 1", "del k", "delifeq k v", "delex k", "digest k", "set k v ifne w",
		"evalsha c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k v", "rename k l",
		"renamenx k l", "copy k l", "expire k 1", "persist k",
	} {
		args := arguments(line)
		c, ok := Lookup(args[0])
		require.True(t, ok)
		err := c.Evaluate(&Call{Args: args, Reply: &Reply{}, Limits: Limits{MaxValue: 100, MaxReply: 100}}, brokenReader{})
		require.ErrorIs(t, err, errBroken, line)
	}
}

func TestScansForgetTheOldestPositions(t *testing.T) {
	var s scans
	first := s.remember([]byte("first"))
	require.Equal(t, "first", string(s.position(first)))
	for range maxScans {
		s.remember([]byte("k"))
	}
	require.Nil(t, s.position(first))
	require.Len(t, s.after, maxScans)
	require.Len(t, s.order, maxScans)
	for range 20 {
		s.remember(make([]byte, 1<<20))
	}
	require.LessOrEqual(t, s.bytes, maxScanBytes)
}
