package sstable

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
)

// For counters and for keys whose first bytes differ, nearly all lookups begin where the
// pivots say; only those of the keys at restart points do not.
func TestPivotsServeNearlyAllLookups(t *testing.T) {
	for shape, key := range map[string]func(i int) string{
		"counters":    func(i int) string { return fmt.Sprintf("%016d", 2*i) },
		"other heads": func(i int) string { return fmt.Sprintf("%03d-%012d", i, i) },
		"long keys":   func(i int) string { return fmt.Sprintf("%0240d", 2*i) },
	} {
		for _, n := range []int{1, 16, 17, 33, 49} {
			t.Run(fmt.Sprintf("%d %s", n, shape), func(t *testing.T) {
				var es entries
				for i := range n {
					es = append(es, itertest.Entry{Key: ikey(key(i), 1, base.KindSet), Value: make([]byte, 100)})
				}
				b := result.Of(newBlock(buildBlock(16, es), dataPart))(t)
				var pv pivots
				pv.make(&b)
				guided := 0
				for i := range n {
					user := []byte(key(i))
					s, ok := pv.find(&b, user)
					if !ok {
						continue
					}
					require.True(t, s.holds(&b, user))
					r, bad := b.searchRestarts(base.Bytewise, true, user, base.MakeTrailer(base.MaxSeq, base.KindSeek))
					require.Negative(t, bad)
					require.Equal(t, start{r: r, p: b.restart(r), limit: b.restartLimit(r), skip: s.skip}, s)
					guided++
				}
				require.Equal(t, n-(n-1)/16, guided)
			})
		}
	}
}

func TestBlocksThatPivotsCannotDescribe(t *testing.T) {
	key := func(user string) string { return string(ikey(user, 1, base.KindSet)) }
	whole := func(user string) string { return rawEntry(0, uint64(len(user)+8), 0, key(user)) }
	n := uint32(len(whole("a")))
	many := ""
	for _, user := range []string{"a", "b", "c", "d", "e"} {
		many += whole(user)
	}
	var large entries
	for i := range 40 {
		large = append(large, itertest.Entry{Key: ikey(fmt.Sprintf("%04d", i), 1, base.KindSet), Value: make([]byte, 4000)})
	}
	for name, data := range map[string][]byte{
		"five restart points":   rawBlock(many, 0, n, 2*n, 3*n, 4*n),
		"keys that descend":     rawBlock(whole("b")+whole("a"), 0, n),
		"a key without trailer": rawBlock(whole("a")+rawEntry(0, 1, 0, "b"), 0, n),
		"nothing":               rawBlock(""),
		"more than 64 KiB":      buildBlock(16, large),
	} {
		t.Run(name, func(t *testing.T) {
			b := result.Of(newBlock(data, dataPart))(t)
			var pv pivots
			pv.make(&b)
			require.EqualValues(t, uint64(pivotsMade), pv.shape.Load())
			_, ok := pv.find(&b, []byte("a"))
			require.False(t, ok)
		})
	}
}

// A target that does not begin like the keys of the block is found at its correct place.
func TestPivotsAreNotUsedForOtherTargets(t *testing.T) {
	var es entries
	for i := range 64 {
		es = append(es, itertest.Entry{Key: ikey(fmt.Sprintf("prefix%04d", i), 1, base.KindSet), Value: make([]byte, 100)})
	}
	b := result.Of(newBlock(buildBlock(16, es), dataPart))(t)
	for _, user := range []string{"", "p", "prefix", "prefiw9999", "prefiy0000", "prefixx", "prefix0063x", "zzzzzzzzzz"} {
		result.Of(blockAnswers(t, &b, []byte(user), base.MakeTrailer(base.MaxSeq, base.KindSeek)))(t)
	}
}

// Windows leave out the bits that all restart points share. Targets that differ in them, by one bit or many, are found
// at their places.
func TestPivotsLeaveOutNoBitOfATarget(t *testing.T) {
	rnd := newRand(t)
	number := func(x uint64) []byte { return binary.BigEndian.AppendUint64([]byte("n"), x) }
	decided := 0
	for range 300 {
		first, step := rnd.Uint64(), uint64(1)<<rnd.IntN(50)
		var es entries
		for i := range uint64(2 + rnd.IntN(62)) {
			es = append(es, itertest.Entry{Key: base.AppendInternalKey(nil, number(first>>1+i*step), 1, base.KindSet)})
		}
		b := result.Of(newBlock(buildBlock(16, es), dataPart))(t)
		var pv pivots
		pv.make(&b)
		for bit := range 64 {
			target := number((first>>1 + rnd.Uint64N(64)*step) ^ 1<<bit)[:9-rnd.IntN(2)*rnd.IntN(9)]
			result.Of(blockAnswers(t, &b, target, base.MakeTrailer(base.MaxSeq, base.KindSeek)))(t)
			if s, ok := pv.find(&b, target); ok && s.holds(&b, target) {
				decided++
			}
		}
	}
	require.Greater(t, decided, 300*64/10)
}
