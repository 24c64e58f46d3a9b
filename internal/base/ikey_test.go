package base

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
)

func TestInternalKeyVectorsRoundTrip(t *testing.T) {
	text := result.Of(os.ReadFile("testdata/ikey.hex"))(t)
	var keys [][]byte
	for _, part := range strings.Split(strings.ReplaceAll(string(text), "\r", ""), "\n\n") {
		var key []byte
		for line := range strings.Lines(part) {
			digits, _, _ := strings.Cut(line, "#")
			b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
			require.NoError(t, err, line)
			key = append(key, b...)
		}
		keys = append(keys, key)
	}
	want := []struct {
		user string
		seq  uint64
		kind Kind
	}{{"ant", 3, KindSet}, {"ant", 2, KindDelete}, {"ants", 300, KindSet}}
	require.Len(t, keys, len(want))
	for i, w := range want {
		require.True(t, ValidInternalKey(keys[i]))
		require.Equal(t, w.user, string(UserKey(keys[i])))
		seq, kind := SplitTrailer(Trailer(keys[i]))
		require.Equal(t, w.seq, seq)
		require.Equal(t, w.kind, kind)
		require.Equal(t, keys[i], AppendInternalKey(nil, []byte(w.user), w.seq, w.kind))
		if i > 0 {
			require.Negative(t, CompareInternal(Bytewise, keys[i-1], keys[i]), "the order is ascending")
			require.Positive(t, CompareInternal(Bytewise, keys[i], keys[i-1]))
		}
	}
}

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

func TestFileNamesParseBack(t *testing.T) {
	for kind := range FileKind(NumFileKinds) {
		for _, num := range []uint64{0, 1, 999_999, 1_000_000, MaxFileNum} {
			gotKind, gotNum, ok := ParseFileName(FileName(kind, num))
			require.True(t, ok, FileName(kind, num))
			require.Equal(t, kind, gotKind)
			if strings.ContainsAny(FileName(kind, num), "0123456789") {
				require.Equal(t, num, gotNum)
			}
		}
	}
	kind, _, ok := ParseFileName("LOG.old")
	require.True(t, ok)
	require.Equal(t, FileInfoLog, kind)
	var names []string
	for _, kind := range []FileKind{FileLog, FileTable, FileOldTable, FileManifest, FileTemp, FileCurrent, FileLock, FileInfoLog, FileClosed} {
		names = append(names, FileName(kind, 12))
	}
	require.Equal(t, []string{"000012.log", "000012.ldb", "000012.sst", "MANIFEST-000012", "000012.dbtmp", "CURRENT", "LOCK", "LOG", "CLOSED"}, names)
	require.Equal(t, "1234567.ldb", FileName(FileTable, 1234567))
}

// "7.log" and "000007.log" were both log 7: in a directory with both, the records of one file
// were replayed twice, with the other file's length.
func TestForeignNamesDoNotParse(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "7.log", "00007.log", "0000007.log", "MANIFEST-1", "MANIFEST-0000001", "MANIFEST-", "MANIFEST", "MANIFEST--00001",
		"+00007.log", "-00007.log", " 000007.log", "000007.log ", "000007.LOG", "000007.log.bak", "000007.", "000007", ".log", "00000x.ldb", "12.txt", "lost",
		"4611686018427387905.ldb", "9223372036854775807.log", "9223372036854775808.ldb", "18446744073709551615.ldb", "18446744073709551616.ldb", strings.Repeat("9", 400) + ".log",
		"current", "CURRENT\n", "closed", "CLOSED.bak", "CLOSED-000007", "000007.closed", "CURRENT.dbtmp", "LOCK ", "LOG.old.old", "000007.ldb/", "/000007.ldb", "../000007.ldb", "000007.ldb\x00",
	} {
		_, _, ok := ParseFileName(name)
		require.False(t, ok, "%q", name)
	}
}

// FuzzParseFileName checks that the names that parse are exactly those that FileName returns.
func FuzzParseFileName(f *testing.F) {
	for kind := range FileKind(NumFileKinds) {
		f.Add(FileName(kind, 123))
		f.Add(FileName(kind, math.MaxInt64))
	}
	for _, name := range []string{"7.log", "LOG.old", "MANIFEST-", "18446744073709551616.ldb", fmt.Sprintf("%020d.log", 7)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		kind, num, ok := ParseFileName(name)
		if !ok {
			return
		}
		require.NotContains(t, name, "/")
		require.LessOrEqual(t, num, MaxFileNum)
		if name != "LOG.old" {
			require.Equal(t, name, FileName(kind, num))
		}
	})
}

func TestALogIsReservedInStepsThatDouble(t *testing.T) {
	var lengths []int64
	for length, end := int64(0), int64(1); end < 4<<20; end = length + 1 {
		length = LogReserve(length, end)
		require.GreaterOrEqual(t, length, end)
		require.Equal(t, length, LogReserve(length, length), "it suffices")
		lengths = append(lengths, length>>10)
	}
	require.Equal(t, []int64{64, 128, 256, 512, 1024, 2048, 3072, 4096}, lengths)
	require.EqualValues(t, 1024<<10, LogReserve(64<<10, 1000<<10+1), "a large record needs more than a step")
	require.EqualValues(t, 64<<10, LeastLogReserve(32<<10+1))
	require.EqualValues(t, 32<<10, LeastLogReserve(32<<10))
}

func TestReferencesToValuesDecodeToThemselves(t *testing.T) {
	for _, r := range []ValueRef{{ID: 1}, {1, 2, 3}, {MaxFileNum, MaxSeq, maxRefLen}, {300, 70_000, 16 << 10}} {
		got := result.Of(DecodeValueRef(r.Append(nil)))(t)
		require.Equal(t, r, got)
		for n := range len(r.Append(nil)) {
			require.ErrorIs(t, result.Err(DecodeValueRef(r.Append(nil)[:n])), ErrCorruption)
		}
		require.ErrorIs(t, result.Err(DecodeValueRef(append(r.Append(nil), 0))), ErrCorruption)
	}
	require.Equal(t, []byte{5, 0x80, 1, 7}, ValueRef{5, 128, 7}.Append(nil), "the format never changes")
	for _, r := range []ValueRef{{}, {MaxFileNum + 1, 1, 1}, {1, MaxSeq + 1, 1}, {1, 1, maxRefLen + 1}} {
		require.ErrorIs(t, result.Err(DecodeValueRef(r.Append(nil))), ErrCorruption)
	}
}

func FuzzDecodeValueRef(f *testing.F) {
	f.Add([]byte{5, 0x80, 1, 7})
	f.Add(ValueRef{MaxFileNum, MaxSeq, maxRefLen}.Append(nil))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeValueRef(data)
		if err != nil {
			require.ErrorIs(t, err, ErrCorruption)
			return
		}
		again := result.Of(DecodeValueRef(r.Append(nil)))(t)
		require.Equal(t, r, again)
	})
}

func TestListsOfReferencesDecodeToThemselves(t *testing.T) {
	sums := []RefSum{{1, 5}, {4, 128}, {MaxFileNum, 1 << 62}}
	got := result.Of(DecodeRefSums(AppendRefSums(nil, sums), ""))(t)
	require.Equal(t, sums, got)
	require.Equal(t, []byte{1, 5, 3, 0x80, 1}, AppendRefSums(nil, sums[:2]), "the format never changes")
	ids := []uint64{3, 4, 700, MaxFileNum}
	gotIDs := result.Of(DecodeIDs(AppendIDs(nil, ids), ""))(t)
	require.Equal(t, ids, gotIDs)
	require.Equal(t, []byte{2, 3, 1}, AppendIDs(nil, ids[:2]))
	for _, bad := range [][]byte{{1}, {0, 5}, {1, 5, 0, 5}, {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		require.ErrorIs(t, result.Err(DecodeRefSums(bad, "")), ErrCorruption)
	}
	for _, bad := range [][]byte{nil, {2, 1}, {1, 0}, {1, 0x80}, append([]byte{2, 1}, util.AppendUvarint64(nil, MaxFileNum)...)} {
		require.ErrorIs(t, result.Err(DecodeIDs(bad, "")), ErrCorruption)
	}
}

func FuzzListsOfReferences(f *testing.F) {
	f.Add([]byte{1, 5, 3, 0x80, 1})
	f.Add([]byte{0, 5})
	f.Add([]byte{2, 3, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if sums, err := DecodeRefSums(data, ""); err == nil {
			require.LessOrEqual(t, 2*len(sums), len(data))
			again := result.Of(DecodeRefSums(AppendRefSums(nil, sums), ""))(t)
			require.Equal(t, sums, again)
		}
		if ids, err := DecodeIDs(data, ""); err == nil {
			require.LessOrEqual(t, len(ids), len(data))
			again := result.Of(DecodeIDs(AppendIDs(nil, ids), ""))(t)
			require.Equal(t, ids, again)
		}
	})
}
