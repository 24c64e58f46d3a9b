package nemesis

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// op is an operation of one command on the tag "t"; an empty answer is unknown.
func op(call, end int64, c command, a answer) porcupine.Operation {
	return txn(call, end, []command{c}, a)
}

func txn(call, end int64, commands []command, answers ...answer) porcupine.Operation {
	out := output{answers: answers}
	if answers[0] == "" {
		out = output{unknown: true}
	}
	return porcupine.Operation{Input: input{tag: "t", commands: commands}, Call: call, Output: out, Return: end}
}

func set(key int, v string) command { return command{verb: doSet, key: key, arg: v} }
func get(key int) command           { return command{verb: doGet, key: key} }

func TestTheModelDistinguishesGoodFromBadHistories(t *testing.T) {
	const ok = answer("=OK")
	cas := func(old, v string) command { return command{verb: doCAS, old: old, arg: v} }
	delIf := command{verb: doDelIf, old: "a"}
	appended := func(v string) command { return command{verb: doAppend, arg: v} }
	mortal := command{verb: doSetMort, arg: "a"}
	incr, del, scan := command{verb: doIncr}, command{verb: doDel}, command{verb: doRange}
	setNX, setXX := command{verb: doSetNX, arg: "n"}, command{verb: doSetXX, arg: "x"}
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		{"a read sees the write before it", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 4, get(0), "=a")}, porcupine.Ok},
		{"a stale read", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 4, set(0, "b"), ok), op(5, 6, get(0), "=a")}, porcupine.Illegal},
		{"an acknowledged write is lost", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 4, get(0), absent)}, porcupine.Illegal},
		{"an unknown write is seen late", []porcupine.Operation{op(1, never, set(0, "a"), ""), op(3, 4, get(0), absent), op(5, 6, get(0), "=a")}, porcupine.Ok},
		{"an unknown write is seen and lost", []porcupine.Operation{op(1, never, set(0, "a"), ""), op(3, 4, get(0), "=a"), op(5, 6, get(0), absent)}, porcupine.Illegal},
		{"a refused write takes effect", []porcupine.Operation{op(3, 4, get(0), "=a")}, porcupine.Illegal},
		{"one CAS of two succeeds", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 6, cas("a", "b"), ":1"), op(4, 5, cas("a", "c"), ":0")}, porcupine.Ok},
		{"both CAS succeed", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 6, cas("a", "b"), ":1"), op(4, 5, cas("a", "c"), ":1")}, porcupine.Illegal},
		{"a CAS of an absent key", []porcupine.Operation{op(1, 2, cas("a", "b"), absent)}, porcupine.Ok},
		{"a lock is released twice", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 6, delIf, ":1"), op(4, 5, delIf, ":1")}, porcupine.Illegal},
		{"another's lock is released", []porcupine.Operation{op(1, 2, set(0, "b"), ok), op(3, 4, delIf, ":1")}, porcupine.Illegal},
		{"another's lock stays", []porcupine.Operation{op(1, 2, set(0, "b"), ok), op(3, 4, delIf, ":0"), op(5, 6, get(0), "=b")}, porcupine.Ok},
		{"an increment is lost", []porcupine.Operation{op(1, 2, incr, ":1"), op(3, 4, incr, ":1")}, porcupine.Illegal},
		{"increments count", []porcupine.Operation{op(1, 4, incr, ":2"), op(2, 3, incr, ":1"), op(5, 6, get(0), "=2")}, porcupine.Ok},
		{"an increment happens twice", []porcupine.Operation{op(1, 2, incr, ":1"), op(3, 4, get(0), "=2")}, porcupine.Illegal},
		{"a list has all in order", []porcupine.Operation{op(1, 2, appended("<1>"), ":3"), op(3, 4, appended("<2>"), ":6"), op(5, 6, get(0), "=<1><2>")}, porcupine.Ok},
		{"a list has the wrong order", []porcupine.Operation{op(1, 2, appended("<1>"), ":3"), op(3, 4, appended("<2>"), ":6"), op(5, 6, get(0), "=<2><1>")}, porcupine.Illegal},
		{"a deleted key returns", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 4, del, ":1"), op(5, 6, get(0), "=a")}, porcupine.Illegal},
		{"SET NX finds a key", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 4, setNX, absent), op(5, 6, get(0), "=a")}, porcupine.Ok},
		{"SET NX overwrites a key", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 4, setNX, ok)}, porcupine.Illegal},
		{"SET XX finds a key", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 4, setXX, ok), op(5, 6, get(0), "=x")}, porcupine.Ok},
		{"SET XX finds none", []porcupine.Operation{op(1, 2, setXX, absent), op(3, 4, get(0), absent)}, porcupine.Ok},
		{"SET XX misses a key", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(3, 4, setXX, absent)}, porcupine.Illegal},
		{"a range sees half of a transaction", []porcupine.Operation{
			txn(1, 2, []command{set(0, "a"), set(1, "b")}, ok, ok), op(3, 4, scan, "0=a"),
		}, porcupine.Illegal},
		{"a range sees all of a transaction", []porcupine.Operation{
			txn(1, 4, []command{set(0, "a"), set(1, "b")}, ok, ok), op(2, 3, scan, "0=a 1=b"),
		}, porcupine.Ok},
		{"a transaction reads what it writes", []porcupine.Operation{txn(1, 2, []command{get(0), set(0, "a"), get(0)}, absent, ok, "=a")}, porcupine.Ok},
		{"a watched key had changed", []porcupine.Operation{
			op(1, 2, set(0, "a"), ok), op(3, 4, set(0, "b"), ok), txn(5, 6, []command{get(0), set(1, "c")}, "=a", ok),
		}, porcupine.Illegal},
		{"a key expires", []porcupine.Operation{op(1, 2, mortal, ok), op(3, 4, get(0), "=a"), op(5, 6, get(0), absent)}, porcupine.Ok},
		{"an expired key returns", []porcupine.Operation{op(1, 2, mortal, ok), op(3, 4, get(0), absent), op(5, 6, get(0), "=a")}, porcupine.Illegal},
		{"a key without a time to live expires", []porcupine.Operation{op(1, 2, set(0, "a"), ok), op(5, 6, get(0), absent)}, porcupine.Illegal},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, porcupine.CheckOperationsTimeout(tags, c.history, time.Minute))
			require.Equal(t, c.want, porcupine.CheckOperationsTimeout(tags, boundUnknown(c.history), time.Minute), "with bounds")
		})
	}
}

func TestAnUnknownWriteEndsWhenItsValueWasSeen(t *testing.T) {
	h := []porcupine.Operation{
		op(1, math.MaxInt64, set(0, "<1>"), ""),
		op(2, math.MaxInt64, set(0, "<11>"), ""),
		op(5, 6, get(0), "=<1>"), op(3, 4, get(0), "=<7><1>"),
	}
	bounded := boundUnknown(h)
	require.EqualValues(t, 4, bounded[0].Return, "the first reply that shows it")
	require.Equal(t, int64(never), bounded[1].Return, "it was not seen")
	require.Equal(t, int64(never), h[0].Return, "the history is not changed")
}

func TestAnIllegalHistoryLeavesAPicture(t *testing.T) {
	h := newHistory()
	h.add(op(1, 2, set(0, "a"), "=OK"))
	h.add(op(3, 4, get(0), absent))
	h.Mark(1, "a fault")
	dir := t.TempDir()
	err := h.Check(time.Minute, dir)
	require.ErrorContains(t, err, "no order explains the 2 operations of tag t")
	require.FileExists(t, dir+"/history-t.html")
}
