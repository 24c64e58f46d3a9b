package compact

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
)

// fates says what becomes of an entry that no newer one of its stratum hides. A "*" matches everything.
var fates = []struct {
	entry   string // a value, a tombstone, or a value that has been dropped
	seq     string // 0 or above
	stratum string // 0: all readers see it; or above
	below   string // whether a level below the output may have its key
	oldest  string // whether the merge has the oldest entries of its keys
	want    fate
}{
	{"value", "0", "0", "*", "*", entryZeroed}, // it has the number already
	{"value", "above", "0", "*", "yes", entryZeroed},
	{"value", "above", "0", "*", "no", entryKept},
	{"value", "above", "above", "*", "*", entryKept},
	{"tombstone", "*", "0", "no", "*", entryDropped},
	{"tombstone", "0", "0", "yes", "*", entryZeroed}, // only other programs write one
	{"tombstone", "above", "0", "yes", "*", entryKept},
	{"tombstone", "above", "above", "*", "*", entryKept},
	{"dropped", "0", "0", "*", "*", entryDropped}, // nothing older exists
	{"dropped", "above", "0", "no", "*", entryDropped},
	{"dropped", "above", "0", "yes", "*", entryKept}, // as a tombstone, which hides what is below
	{"dropped", "above", "above", "*", "*", entryKept},
}

// Every combination is in exactly one row of the table, and each row is needed.
func TestEveryEntryHasItsFate(t *testing.T) {
	yes := map[bool]string{true: "yes", false: "no"}
	above := func(n uint64) string {
		if n == 0 {
			return "0"
		}
		return "above"
	}
	used := make([]bool, len(fates))
	check := func(name string, e considered, oldest bool) {
		var matches []int
		for i, f := range fates {
			fields := [][2]string{
				{f.entry, name}, {f.seq, above(e.seq)}, {f.stratum, above(uint64(e.stratum))}, {f.below, yes[e.covers]}, {f.oldest, yes[oldest]},
			}
			match := true
			for _, field := range fields {
				match = match && (field[0] == "*" || field[0] == field[1])
			}
			if match {
				matches, used[i] = append(matches, i), true
			}
		}
		require.Len(t, matches, 1, "%s %+v, oldest %v", name, e, oldest)
		r := retention{holdsOldest: oldest}
		require.Equal(t, fates[matches[0]].want, r.fate(e), "%s %+v, oldest %v", name, e, oldest)
	}
	for name, e := range map[string]considered{
		"value": {kind: base.KindSet}, "tombstone": {kind: base.KindDelete}, "dropped": {kind: base.KindDelete, dropped: true},
	} {
		for _, at := range []considered{{seq: 0}, {seq: 7}, {seq: 7, stratum: 1}, {seq: base.MaxSeq, stratum: 2}} {
			for _, covers := range []bool{false, true} {
				e.seq, e.stratum, e.covers = at.seq, at.stratum, covers
				check(name, e, false)
				check(name, e, true)
			}
		}
	}
	require.NotContains(t, used, false, "a row that nothing matches")
}

// Stratum i has the entries that a reader at visible[i] sees and one at visible[i-1] does not.
func TestStrataEndWhereReadersRead(t *testing.T) {
	for _, visible := range [][]uint64{{0}, {9}, {0, 9}, {3, 4, 9}, {1, 5, 6, 7, 100}} {
		r := retention{visible: visible}
		for seq := range visible[len(visible)-1] + 3 {
			stratum := r.stratum(seq)
			for i, at := range visible {
				require.Equal(t, seq <= at, stratum <= i, "entry %d, a reader at %d of %v", seq, at, visible)
			}
		}
	}
}

// verdicts says what happens to the newest value of a key. A snapshot sees it or not; it expires never, later, or has
// expired for a reader of now only, or for the oldest snapshot too.
var verdicts = []struct {
	seen, expires, asks string
	want                verdict
}{
	{"seen", "never", "*", valueStays},
	{"seen", "later", "*", valueStays},
	{"seen", "by now", "*", valueStays},
	{"seen", "by hidden", "*", valueExpired},
	{"unseen", "never", "no", valueStays},
	{"unseen", "never", "asks", valueAsked},
	{"unseen", "later", "no", valueStays},
	{"unseen", "later", "asks", valueAsked},
	{"unseen", "by now", "*", valueExpired},
	{"unseen", "by hidden", "*", valueExpired},
}

func TestEveryValueIsJudged(t *testing.T) {
	seqs := map[string]uint64{"seen": 9, "unseen": 10}
	times := map[string]uint64{"never": expiry.Never, "later": 301, "by now": 300, "by hidden": 200}
	checked := 0
	for _, v := range verdicts {
		for _, asks := range []string{"no", "asks"} {
			if v.asks != "*" && v.asks != asks {
				continue
			}
			checked++
			r := retention{unseen: 10, now: 300, hidden: 200, asks: asks == "asks"}
			require.Equal(t, v.want, r.judge(seqs[v.seen], times[v.expires]), "%s, %s, %s", v.seen, v.expires, asks)
		}
	}
	require.Equal(t, len(seqs)*len(times)*2, checked, "combinations")
}

// Tombstones are never considered. Of the values, those that a snapshot sees are if something has expired for it.
func TestValuesAreConsideredIfTheyMayBeDropped(t *testing.T) {
	for _, c := range []struct {
		r            retention
		seen, unseen bool
	}{
		{retention{unseen: neverUnseen}, false, false},
		{retention{unseen: 10, asks: true}, false, true},
		{retention{unseen: 10, now: 300, hidden: 200}, true, true},
		{retention{unseen: 0, asks: true}, true, true},
	} {
		t.Run(fmt.Sprintf("%+v", c.r), func(t *testing.T) {
			require.Equal(t, c.seen, c.r.considers(base.KindSet, 9))
			require.Equal(t, c.unseen, c.r.considers(base.KindSet, 10))
			require.Equal(t, c.unseen, c.r.considers(base.KindSet, base.MaxSeq))
			require.False(t, c.r.considers(base.KindDelete, 9))
			require.False(t, c.r.considers(base.KindDelete, 10))
		})
	}
}
