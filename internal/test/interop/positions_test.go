package interop

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/sievedb/sievedb/db"
)

// movesOf returns what each of some random movements showed. A seed stands for the movements.
func movesOf(seed uint64, it cursor) (shown []string) {
	rng := rand.New(rand.NewPCG(seed, 5))
	for range 300 {
		var name string
		var ok bool
		switch n := rng.IntN(12); {
		case n == 0:
			name, ok = "first", it.First()
		case n == 1:
			name, ok = "last", it.Last()
		case n == 2:
			key := positionKey(rng.IntN(24))
			name, ok = fmt.Sprintf("seek %s", key), it.Seek(key)
		case n < 8:
			name, ok = "next", it.Next()
		default:
			name, ok = "prev", it.Prev()
		}
		shown = append(shown, fmt.Sprintf("%s: %t, %t, %s = %s", name, ok, it.Valid(), it.Key(), it.Value()))
	}
	return shown
}

func positionKey(n int) []byte { return fmt.Appendf(nil, "%02d", n) }

// positionBounds are the bounds of the iterators that are compared; nil: no bound.
var positionBounds = []util.Range{
	{}, {Start: positionKey(5)}, {Limit: positionKey(15)}, {Start: positionKey(4), Limit: positionKey(17)},
	{Start: positionKey(6), Limit: positionKey(7)}, {Start: positionKey(30)},
}

// Iterators of SieveDB stand where goleveldb's do: before the first key when new, and on either
// side of the keys after movements that find none.
func TestIteratorPositionsAreThoseOfGoLevelDB(t *testing.T) {
	for _, n := range []int{0, 1, 2, 12} {
		t.Run(fmt.Sprintf("%d keys", n), func(t *testing.T) {
			s := newSession(t, SieveDB{}, Options{})
			for i := range n {
				s.put(string(positionKey(2*i)), "overwritten")
				s.write(Put(positionKey(2*i+1), []byte("deleted")), Delete(positionKey(2*i+1)))
				if i%5 == 4 {
					s.flush()
				}
				s.put(string(positionKey(2*i)), fmt.Sprintf("value %d", i))
			}
			var want [][]string
			const seeds = 20
			for i := range positionBounds {
				bounds := &positionBounds[i]
				for seed := range uint64(seeds) {
					it, err := s.db.(*sieveDB).d.NewIterator(&db.IterOptions{LowerBound: bounds.Start, UpperBound: bounds.Limit})
					require.NoError(t, err)
					want = append(want, movesOf(seed, sieveCursor{it}))
					require.NoError(t, it.Close())
				}
			}
			s.close()
			s.openExisting(GoLevelDB{})
			for i := range positionBounds {
				for seed := range uint64(seeds) {
					it := s.db.(*goleveldbDB).d.NewIterator(&positionBounds[i], nil)
					require.Equal(t, want[0], movesOf(seed, it), "bounds %d, seed %d", i, seed)
					require.NoError(t, it.Error())
					it.Release()
					want = want[1:]
				}
			}
		})
	}
}
