package vfs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// minReserve is the first step of base.LogReserve.
const minReserve = 64 << 10

func newMappedLog(t testing.TB) (m *mappedLog, path string) {
	t.Helper()
	return mappedLogIn(t, t.TempDir())
}

func mappedLogIn(t testing.TB, dir string) (m *mappedLog, path string) {
	t.Helper()
	path = filepath.Join(dir, "log")
	f := result.Of(CreateLog(OS, path))(t)
	m, ok := f.(*mappedLog)
	if !ok {
		_ = f.Close()
		t.Skip("NO MAPPED LOG: the file system of the temporary directory is not one of those that keep what they reserve")
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, path
}

func appendTo(t testing.TB, f File, n int, b byte) {
	t.Helper()
	got := result.Of(f.Write(bytes.Repeat([]byte{b}, n)))(t)
	require.Equal(t, n, got)
}

func lengthOf(t testing.TB, path string) int64 {
	t.Helper()
	info := result.Of(os.Stat(path))(t)
	return info.Size()
}

// Every store makes a log, and many write little.
func TestASmallLogReservesLittleAndACutOneNothing(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 4095, 4096, 4097, minReserve, minReserve + 1, 1 << 20} {
		m, path := newMappedLog(t)
		for left := size; left > 0; {
			n := min(left, 1000)
			appendTo(t, m, n, 'x')
			left -= n
		}
		require.LessOrEqual(t, lengthOf(t, path), int64(max(minReserve, 4*size)), "of %d bytes", size)
		if size == 0 {
			require.Zero(t, lengthOf(t, path))
		}
		require.NoError(t, m.Cut())
		require.EqualValues(t, size, lengthOf(t, path))
		require.NoError(t, m.Sync())
		require.NoError(t, m.Cut(), "again")
		require.NoError(t, m.Close())
		require.EqualValues(t, size, lengthOf(t, path))
		var s syscall.Stat_t
		require.NoError(t, syscall.Stat(path, &s))
		require.LessOrEqual(t, s.Blocks*512, int64(size+8192), "the reserved blocks are free again")
	}
}

func TestClosedMappedLogsLeaveNoMappings(t *testing.T) {
	mappings := func(path string) int {
		maps := result.Of(os.ReadFile("/proc/self/maps"))(t)
		return strings.Count(string(maps), path)
	}
	m, path := newMappedLog(t)
	require.Zero(t, mappings(path))
	for range 100 { // in several steps
		appendTo(t, m, 10_000, 'x')
		require.Equal(t, 1, mappings(path))
	}
	require.NoError(t, m.Cut())
	require.Zero(t, mappings(path))
	require.NoError(t, m.Close())
}

// A log that another program truncates: the process survives, and the writer gets an error that lasts.
func TestAMappedLogThatWasTruncatedIsAnError(t *testing.T) {
	page := os.Getpagesize()
	for _, c := range []struct {
		name              string
		before, to, write int
	}{
		{"before the first page", 1, 0, 100},
		{"before the page of the next byte", 5 * page, page, 100},
		{"within a Write of several pages", 10, 4 * page, 8 * page},
		{"within the last page of a Write", 10, 4 * page, 4*page + 100},
		{"within the reserved space, before a long Write", 100, minReserve / 2, minReserve - 200},
		{"before the next reservation", 100, page, minReserve + 100},
		{"before zeros are written ahead", aheadStep + 10, aheadStep + page, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, path := newMappedLog(t)
			appendTo(t, m, c.before, 'a')
			require.NoError(t, os.Truncate(path, int64(c.to)))
			n, err := m.Write(bytes.Repeat([]byte{'b'}, c.write))
			require.Zero(t, n)
			require.True(t, base.IsNoSpace(err) == false)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, "another program truncated it")
			_, again := m.Write([]byte("c"))
			require.Equal(t, err, again)
			size := result.Of(m.Size())(t)
			require.EqualValues(t, c.before, size)
			if c.to > c.before {
				require.NoError(t, m.Sync(), "the written bytes are there")
				require.NoError(t, m.Close())
				require.EqualValues(t, c.before, lengthOf(t, path))
				return
			}
			require.ErrorIs(t, m.Sync(), errLogShort)
			require.ErrorIs(t, m.Close(), errLogShort)
			require.EqualValues(t, c.to, lengthOf(t, path), "no zeros hide that bytes are lost")
		})
	}
}

func TestALongWriteToATruncatedLogIsAnError(t *testing.T) {
	m, path := newMappedLog(t)
	appendTo(t, m, 4*longWrite, 'a')
	appendTo(t, m, 100, 'a') // reserves as much again
	require.GreaterOrEqual(t, m.reserved, m.size.Load()+longWrite)
	require.NoError(t, os.Truncate(path, 4*longWrite+100))
	require.ErrorIs(t, result.Err(m.Write(make([]byte, longWrite))), errLogShort)
	require.EqualValues(t, 4*longWrite+100, lengthOf(t, path))
}

// Each Sync would have to write the zeros, too.
func TestZerosAreWrittenAheadOnlyOfALogThatIsRarelySynced(t *testing.T) {
	m, path := newMappedLog(t)
	var want []byte
	write := func(n int) {
		appendTo(t, m, n, byte(len(want)%255+1))
		want = append(want, bytes.Repeat([]byte{byte(len(want)%255 + 1)}, n)...)
		require.LessOrEqual(t, m.zeroed, m.reserved)
	}
	for range 3 * aheadStep / 1000 {
		write(1000)
		require.NoError(t, m.Sync())
		require.Zero(t, m.zeroed)
	}
	for m.size.Load()-m.synced.Load() < aheadStep {
		require.Zero(t, m.zeroed)
		write(777)
	}
	for i := range 1000 {
		write(1 + i%700)
		require.GreaterOrEqual(t, m.zeroed, m.size.Load())
		require.LessOrEqual(t, m.zeroed, m.size.Load()+2*aheadStep)
	}
	write(5 << 20)
	require.NoError(t, m.Sync())
	for zeroed := m.zeroed; m.size.Load() < zeroed+1000; {
		write(1000)
		require.NoError(t, m.Sync())
		require.Equal(t, zeroed, m.zeroed)
	}
	require.False(t, m.plain)
	got := result.Of(os.ReadFile(path))(t)
	require.True(t, bytes.HasPrefix(got, want))
	require.Len(t, bytes.TrimRight(got, "\x00"), len(want))
}

// In the last page, stores after the end of the file succeed.
func TestSyncReportsBytesThatATruncationLost(t *testing.T) {
	m, path := newMappedLog(t)
	appendTo(t, m, 100, 'a')
	require.NoError(t, os.Truncate(path, 50))
	appendTo(t, m, 100, 'b')
	require.ErrorIs(t, m.Sync(), errLogShort)
}

// A fault in the caller's own memory is not a fault of the log.
func TestAFaultInTheWrittenBytesIsAPanic(t *testing.T) {
	m, _ := newMappedLog(t)
	page := os.Getpagesize()
	mem := result.Of(syscall.Mmap(-1, 0, page, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	defer func() { require.NoError(t, syscall.Munmap(mem)) }()
	require.Panics(t, func() { _, _ = m.Write(mem) })
	require.Error(t, result.Err(m.Write([]byte("a"))), "there may be bytes of the first Write after it")
}

type faultAt uintptr

func (f faultAt) Addr() uintptr { return uintptr(f) }

func TestAFaultIsThatOfTheLogIfOnlyItsPageIsKnown(t *testing.T) {
	page := uintptr(os.Getpagesize())
	window := result.Of(syscall.Mmap(-1, 0, int(2*page), syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	defer func() { require.NoError(t, syscall.Munmap(window)) }()
	begin := uintptr(unsafe.Pointer(&window[0]))
	dst := window[100 : page+100]
	for addr, want := range map[uintptr]bool{
		begin - 1: false, begin: true, begin + 100: true, begin + page: true, begin + page + 99: true, begin + page + 100: false, 0: false,
	} {
		require.Equal(t, want, isFaultIn(dst, faultAt(addr)), "%#x", addr-begin)
	}
	require.False(t, isFaultIn(dst, "a panic"))
}

// Without a mapping, a Write may be cut short (see checkFileSizeLimit), and nothing may follow its bytes.
func TestAFailedWriteEndsALogWithoutAMapping(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	require.NoError(t, err)
	m := &mappedLog{file: &osFile{f: full}, plain: true}
	for range 2 {
		_, err = m.Write([]byte("a"))
		require.True(t, base.IsNoSpace(err))
	}
	require.NoError(t, m.err)
	require.NoError(t, full.Close())
	_, err = m.Write([]byte("a"))
	require.Error(t, err)
	require.Equal(t, err, m.err)
}

// limitTask is set in the environment of a process that sets a limit for itself.
const limitTask = "SIEVEDB_LOG_LIMIT"

// A limit of the process does not end writes earlier than it would end write(2).
func TestALogThatCannotBeMappedIsWritten(t *testing.T) {
	newMappedLog(t)
	switch os.Getenv(limitTask) {
	case "address space":
		checkAddressSpaceLimit(t)
		return
	case "file size":
		checkFileSizeLimit(t)
		return
	}
	for _, limit := range []string{"address space", "file size"} {
		t.Run(limit, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestALogThatCannotBeMappedIsWritten$", "-test.v")
			cmd.Env = append(os.Environ(), limitTask+"="+limit)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "PASS")
		})
	}
}

func checkAddressSpaceLimit(t *testing.T) {
	const big, free = 40 << 20, 32 << 20 // the runtime of Go needs some
	p := result.Of(syscall.Mmap(-1, 0, big, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	defer func() { require.NoError(t, syscall.Munmap(p)) }()
	m, path := newMappedLog(t)
	appendTo(t, m, 100, 'a')
	appendTo(t, m, 1000, 'b')
	used := fieldOf(t, "/proc/self/statm", 0) * uint64(os.Getpagesize())
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: used + free, Max: unix.RLIM_INFINITY}))
	got, err := m.Write(p)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}))
	require.NoError(t, err)
	require.Equal(t, big, got)
	require.True(t, m.plain)
	appendTo(t, m, 100, 'd')
	require.EqualValues(t, 1200+big, lengthOf(t, path))
	require.NoError(t, m.Sync())
	require.NoError(t, m.Close())
	checkContent(t, path, "a", 100, "b", 1000, "\x00", big, "d", 100)
}

func checkFileSizeLimit(t *testing.T) {
	const limit = 150_000 // not a whole number of pages
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: unix.RLIM_INFINITY}))
	m, path := newMappedLog(t)
	appendTo(t, m, 100_000, 'a')
	require.False(t, m.plain)
	appendTo(t, m, 49_999, 'b')
	require.True(t, m.plain)
	n, err := m.Write([]byte("cd"))
	require.ErrorIs(t, err, syscall.EFBIG)
	require.Equal(t, 1, n)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}))
	require.ErrorIs(t, result.Err(m.Write([]byte("e"))), syscall.EFBIG, "the error is final")
	require.NoError(t, m.Close())
	checkContent(t, path, "a", 100_000, "b", 49_999, "c", 1)
}

// checkContent compares a file with texts and how often each is repeated.
func checkContent(t *testing.T, path string, parts ...any) {
	t.Helper()
	var want []byte
	for i := 0; i < len(parts); i += 2 {
		want = append(want, strings.Repeat(parts[i].(string), parts[i+1].(int))...)
	}
	got := result.Of(os.ReadFile(path))(t)
	require.True(t, bytes.Equal(want, got), "%d bytes instead of %d", len(got), len(want))
}

func fieldOf(t *testing.T, path string, i int) (n uint64) {
	b := result.Of(os.ReadFile(path))(t)
	result.Of(fmt.Sscan(strings.Fields(string(b))[i], &n))(t)
	return n
}

// benchLogs calls f with a file that is appended by write(2) and with a mapped one.
func benchLogs(b *testing.B, f func(b *testing.B, create func() File)) {
	for _, how := range []string{"write", "mapped"} {
		b.Run(how, func(b *testing.B) {
			n := 0
			f(b, func() File {
				n++
				dir := filepath.Join(b.TempDir(), fmt.Sprint(n))
				require.NoError(b, os.Mkdir(dir, 0o700))
				if how == "mapped" {
					m, _ := mappedLogIn(b, dir)
					return m
				}
				f := result.Of(OS.Create(filepath.Join(dir, "log")))(b)
				return f
			})
		})
	}
}

// A new log begins after 32 MiB.
func BenchmarkLogWrite(b *testing.B) {
	for _, size := range []int{130, 13_000, longWrite, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchLogWrite(b, size) })
	}
}

func benchLogWrite(b *testing.B, size int) {
	p := bytes.Repeat([]byte("x"), size)
	benchLogs(b, func(b *testing.B, create func() File) {
		b.SetBytes(int64(len(p)))
		f, left := create(), 32<<20
		for b.Loop() {
			if left -= len(p); left < 0 {
				b.StopTimer()
				require.NoError(b, f.Close())
				f, left = create(), 32<<20
				b.StartTimer()
			}
			if _, err := f.Write(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkLogSync(b *testing.B) {
	p := bytes.Repeat([]byte("x"), 130)
	benchLogs(b, func(b *testing.B, create func() File) {
		f := create()
		for b.Loop() {
			_, err := f.Write(p)
			if err == nil {
				err = f.Sync()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
