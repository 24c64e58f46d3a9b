package base

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func randomKey(rnd *rand.Rand) []byte {
	user := make([]byte, rnd.IntN(20))
	for i := range user {
		user[i] = []byte{0, 'a', 'b', 0xff}[rnd.IntN(4)]
	}
	return AppendInternalKey(nil, user, rnd.Uint64N(4), Kind(rnd.IntN(2)))
}

// User keys ascend, their versions descend, and a shortened key lies between its neighbours.
func TestInternalKeysAreInOrderAndSoAreShortenedOnes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	plain := &Comparer{Name: "test.Plain", Compare: bytes.Compare} // shortens nothing
	for range 10_000 {
		a, b := randomKey(rnd), randomKey(rnd)
		order := CompareInternal(Bytewise, a, b)
		require.Equal(t, -order, CompareInternal(Bytewise, b, a))
		require.Equal(t, order == 0, bytes.Equal(a, b))
		if user := bytes.Compare(UserKey(a), UserKey(b)); user != 0 {
			require.Equal(t, user, order)
			require.False(t, SameVersion(Bytewise, a, b))
		} else {
			require.Equal(t, Trailer(a)>>8 == Trailer(b)>>8, SameVersion(Bytewise, a, b))
		}
		for _, c := range []*Comparer{Bytewise, plain} {
			successor := InternalSuccessor(c, []byte("x"), a)[1:]
			require.True(t, ValidInternalKey(successor))
			require.GreaterOrEqual(t, CompareInternal(c, successor, a), 0)
			if order < 0 {
				separator := InternalSeparator(c, []byte("x"), a, b)[1:]
				require.LessOrEqual(t, CompareInternal(c, a, separator), 0)
				require.Negative(t, CompareInternal(c, separator, b))
			}
		}
		n := SharedPrefixLen(a, b)
		require.Equal(t, a[:n], b[:n])
		require.True(t, n == min(len(a), len(b)) || a[n] != b[n])
	}
	long := bytes.Repeat([]byte("k"), 100)
	require.Equal(t, 100, SharedPrefixLen(long, slices.Clone(long)))
}

func TestKeysOfUnknownKindsAreRecognized(t *testing.T) {
	for kind, newer := range map[Kind]bool{KindDelete: false, KindSet: false, KindRef: false, KindRef + 1: true, 0xff: false} {
		ikey := AppendInternalKey(nil, []byte("user"), 5, kind)
		require.Equal(t, kind <= KindRef, ValidInternalKey(ikey), "kind %d", kind)
		require.Equal(t, newer, HasNewerKind(ikey), "kind %d", kind)
	}
	require.False(t, HasNewerKind([]byte("short")))
	require.Equal(t, "none", DescribeKey([]byte("short")))
	described := DescribeKey(AppendInternalKey(nil, []byte("secret"), 5, KindSet))
	require.Equal(t, "of 14 bytes with trailer 0x501", described)
}
