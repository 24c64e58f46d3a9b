package base

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
