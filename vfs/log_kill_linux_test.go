package vfs

import (
	"bytes"
	"encoding/binary"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
)

var (
	logKills    = flag.Int("log.kills", 100, "how often TestAKilledProcessLeavesWholeRecords kills a writer")
	logKillSeed = flag.Uint64("log.killseed", 0, "its seed; 0 chooses a random one")
)

// logChild is set in the environment of a process that appends to a log until it is killed. Its value is what it does
// besides; logChildDir and logChildSeed say where and what it writes.
const (
	logChild     = "SIEVEDB_LOG_CHILD"
	logChildDir  = "SIEVEDB_LOG_DIR"
	logChildSeed = "SIEVEDB_LOG_SEED"
)

// The child begins before any test does, and on the first thread, which is the one that a tracer sees.
func init() {
	if how := os.Getenv(logChild); how != "" {
		runtime.LockOSThread()
		runLogChild(how, os.Getenv(logChildDir), os.Getenv(logChildSeed))
		os.Exit(0)
	}
}

// records is a sequence of records. No byte of them is zero.
type records struct {
	seed    uint64
	longest int
	pool    []byte
}

func newRecords(seed uint64, longest int) *records {
	r := &records{seed: seed, longest: longest, pool: make([]byte, longest+1<<20)}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(r.pool)
	for i := range r.pool {
		r.pool[i] |= 1
	}
	return r
}

// at returns record i. Short ones are as frequent as long ones.
func (r *records) at(i int) []byte {
	rnd := rand.New(rand.NewPCG(r.seed, uint64(i)))
	n := int(headStore * math.Exp(rnd.Float64()*math.Log(float64(r.longest)/headStore)))
	return r.pool[rnd.IntN(1<<20):][:n]
}

// acknowledged is a number in a file that a process counts up without a system call, so that it survives its death.
func acknowledged(dir string) (*atomic.Uint64, error) {
	f, err := os.OpenFile(filepath.Join(dir, "acknowledged"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(8); err != nil {
		return nil, err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(mem))), nil
}

// runLogChild appends some 32 MiB. It then waits to be killed.
func runLogChild(how, dir, seedText string) {
	seed, err := strconv.ParseUint(seedText, 10, 64)
	must(err)
	count, err := acknowledged(dir)
	must(err)
	f, err := CreateLog(OS, filepath.Join(dir, "log"))
	must(err)
	r := newRecords(seed, longestRecord(how))
	if how == "sync" { // so that pages become read-only again
		go func() {
			for {
				must(f.Sync())
			}
		}()
	}
	var all [][]byte
	for i, n := 0, 0; n < 32<<20 && i < 10_000; i++ {
		all = append(all, r.at(i))
		n += len(all[i])
	}
	for i, p := range all {
		if how == "step" && i == 1 {
			// The tracer begins here. For the scheduler, the goroutine does not leave its processor meanwhile.
			_, _, errno := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(unix.Gettid()), uintptr(unix.SIGTRAP))
			if errno != 0 {
				panic(errno)
			}
		}
		parts := [][]byte{p}
		if i%2 == 1 { // the step from the head to the body is not that of a part
			parts = [][]byte{p[:LogHead], p[LogHead : LogHead+len(p[LogHead:])/3], p[LogHead+len(p[LogHead:])/3:]}
		}
		_, err := f.(LogFile).WriteParts(parts...)
		must(err)
		count.Store(uint64(i + 1))
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func longestRecord(how string) int {
	if how == "step" {
		return 3000
	}
	return 2 * longWrite
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func logChildCommand(how, dir string, seed uint64) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), logChild+"="+how, logChildDir+"="+dir, logChildSeed+"="+strconv.FormatUint(seed, 10))
	cmd.Stderr = os.Stderr
	return cmd
}

// wholeRecords checks that the bytes of a log are whole records, then no part of the head of the next one, but perhaps
// bytes of its body, then zeros. It returns the number of whole records and whether bytes of another one follow.
func wholeRecords(t *testing.T, r *records, log []byte, from int) (n int, more bool) {
	t.Helper()
	for n = from; ; n++ {
		next := r.at(n)
		part := log[:min(len(log), len(next))]
		if bytes.Equal(part, next) {
			log = log[len(next):]
			continue
		}
		require.Empty(t, bytes.Trim(part[:min(headStore, len(part))], "\x00"), "record %d has a head, and not all of its body", n)
		for i, b := range part {
			require.True(t, b == 0 || b == next[i], "byte %d of record %d", i, n)
			more = more || b != 0
		}
		require.Empty(t, bytes.Trim(log[len(part):], "\x00"), "bytes after record %d, which is not whole", n)
		return n, more
	}
}

// A process that appends to a log is killed when a byte chosen at random has been stored: the rest of the record that
// contains it is being stored then, or the next one.
func TestAKilledProcessLeavesWholeRecords(t *testing.T) {
	newMappedLog(t) // or the test shows nothing
	kills, seed := *logKills, *logKillSeed
	if testing.Short() {
		kills = min(kills, 20)
	}
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	t.Logf("-log.killseed=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	inBody := 0
	for i := range kills {
		how := "write"
		if i%4 == 3 {
			how = "sync"
		}
		goal := int64(64 * math.Exp(rnd.Float64()*math.Log(8<<20/64)))
		if killWriter(t, how, seed+uint64(i), goal) {
			inBody++
		}
	}
	t.Logf("%d kills, %d of them while the body of a record was being stored", kills, inBody)
}

// killWriter kills a child when the byte at goal is there. It reports whether a record was being stored.
func killWriter(t *testing.T, how string, seed uint64, goal int64) (inBody bool) {
	dir := result.Of(os.MkdirTemp(t.TempDir(), ""))(t)
	count := result.Of(acknowledged(dir))(t)
	cmd := logChildCommand(how, dir, seed)
	stdin := result.Of(cmd.StdinPipe())(t)
	defer stdin.Close()
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	waitForByte(t, filepath.Join(dir, "log"), goal, ended)
	require.NoError(t, cmd.Process.Kill())
	<-ended

	log := result.Of(os.ReadFile(filepath.Join(dir, "log")))(t)
	n, inBody := wholeRecords(t, newRecords(seed, longestRecord(how)), log, 0)
	require.GreaterOrEqual(t, n, int(count.Load()), "a Write that returned was lost")
	require.LessOrEqual(t, n, int(count.Load())+1)
	require.NoError(t, os.RemoveAll(dir))
	return inBody
}

func waitForByte(t *testing.T, path string, off int64, ended chan struct{}) {
	var f *os.File
	for b := []byte{0}; b[0] == 0; {
		select {
		case <-ended:
			require.Fail(t, "the writer ended by itself")
		default:
		}
		if f == nil {
			f, _ = os.Open(path)
			continue
		}
		_, _ = f.ReadAt(b, off)
	}
	require.NoError(t, f.Close())
}

// A tracer executes the writer one machine instruction at a time, and looks at the file after each of them: that is
// what a kill there would leave.
func TestAKillAtAnyInstructionLeavesWholeRecords(t *testing.T) {
	newMappedLog(t) // or the test shows nothing
	if race.Enabled {
		t.Skip("NO INSTRUCTION WAS STEPPED: most would be of the race detector")
	}
	wanted := 200
	if testing.Short() {
		wanted = 6
	}
	runtime.LockOSThread() // the tracer is a thread
	for range 20 {
		if stepWriter(t, wanted) {
			return
		}
	}
	require.Fail(t, "each writer waited for one of its threads that do not run")
}

// stuckAfter is how long an instruction may take before the writer is stuck. On a busy machine, the scheduler of
// the child may have decided, before its threads were stopped, that another of them continues.
const stuckAfter = 5 * time.Second

// stepWriter reports whether a new child could be stepped until it had written that many records.
func stepWriter(t *testing.T, wanted int) bool {
	const seed = 33
	dir := result.Of(os.MkdirTemp(t.TempDir(), ""))(t)
	count := result.Of(acknowledged(dir))(t)
	pid, end := traceLogChild(t, dir, seed)
	defer end()
	f := result.Of(os.Open(filepath.Join(dir, "log")))(t)
	defer f.Close()
	r := newRecords(seed, longestRecord("step"))
	steps, partial, n, at := 0, 0, 0, int64(0)
	buf := make([]byte, 2*longestRecord("step"))
	for ; n < wanted; steps++ {
		require.Less(t, steps, wanted*20_000, "only %d records were written", n)
		got, err := f.ReadAt(buf, at)
		require.True(t, err == nil || err == io.EOF)
		whole, more := wholeRecords(t, r, buf[:got], n)
		require.GreaterOrEqual(t, whole, int(count.Load()))
		for ; n < whole; n++ {
			at += int64(len(r.at(n)))
		}
		if more {
			partial++
		}
		require.NoError(t, syscall.PtraceSingleStep(pid))
		if !waitForTrap(t, pid, syscall.PtraceSingleStep) {
			return false
		}
	}
	t.Logf("%d instructions for %d records; after %d of them a record was there in part", steps, n, partial)
	require.Greater(t, partial, n, "the test has looked while records were being stored")
	return true
}

// traceLogChild starts a child and stops it before its second record. All threads but the first remain stopped: while
// it is stepped, the scheduler would find that it has run for too long. The caller calls end.
func traceLogChild(t *testing.T, dir string, seed uint64) (pid int, end func()) {
	cmd := logChildCommand("step", dir, seed)
	cmd.Env = append(cmd.Env, "GOGC=off", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skipf("NO INSTRUCTION WAS STEPPED: the system does not allow tracing a process: %v", err)
	}
	pid = cmd.Process.Pid
	threads := []int{pid}
	end = func() {
		_ = cmd.Process.Kill()
		for _, tid := range slices.Backward(threads) { // the first ends last
			_, _ = syscall.Wait4(tid, nil, syscall.WALL, nil)
		}
	}
	resume := func(pid int) error { return syscall.PtraceCont(pid, 0) }
	for !waitForTrap(t, pid, resume) { // of exec
	}
	require.NoError(t, resume(pid))
	for !waitForTrap(t, pid, resume) { // of the child itself
	}
	tasks := result.Of(os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task"))(t)
	for _, task := range tasks {
		tid := result.Of(strconv.Atoi(task.Name()))(t)
		if tid == pid {
			continue
		}
		require.NoError(t, syscall.PtraceAttach(tid))
		threads = append(threads, tid)
		result.Of(syscall.Wait4(tid, nil, syscall.WALL, nil))(t)
	}
	return pid, end
}

// waitForTrap waits until the traced thread stops with SIGTRAP. It resumes the thread without other signals: those of
// the Go scheduler. It returns false if the thread is stuck.
func waitForTrap(t *testing.T, pid int, resume func(pid int) error) bool {
	began := time.Now()
	for {
		var ws syscall.WaitStatus
		stopped, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		require.NoError(t, err)
		if stopped == 0 {
			if time.Since(began) > stuckAfter {
				return false
			}
			runtime.Gosched()
			continue
		}
		require.True(t, ws.Stopped(), "the writer ended: %v", ws)
		switch sig := ws.StopSignal(); sig {
		case syscall.SIGTRAP:
			return true
		case syscall.SIGURG, syscall.SIGCHLD:
			require.NoError(t, resume(pid))
		default:
			require.Fail(t, "unexpected signal", "%v", sig)
		}
	}
}

// The bytes of a body can be stored in any order, and the process can end after any of them. This is the same check as
// above, on a model that needs no tracer and runs on every machine.
func TestTheHeadIsStoredAfterTheBody(t *testing.T) {
	r := newRecords(7, 600)
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range 20 {
		first, second := r.at(i), r.at(i+1)
		log := make([]byte, 2000)
		var head [headStore]byte
		storeBody(log, [][]byte{first}, &head)
		storeHead(log, &head)
		rest := log[len(first):]
		for _, at := range rnd.Perm(max(len(second)-headStore, 0)) {
			n, _ := wholeRecords(t, r, log, i)
			require.Equal(t, i+1, n)
			rest[headStore+at] = second[headStore+at] // a store of storeBody
		}
		n, _ := wholeRecords(t, r, log, i)
		require.Equal(t, i+1, n)
		before := bytes.Clone(rest)
		storeBody(rest, [][]byte{second[:3], second[3:LogHead], second[LogHead:]}, &head)
		require.Equal(t, before, rest, "storeBody stores exactly what follows the head")
		storeHead(rest, &head)
		n, more := wholeRecords(t, r, log, i)
		require.Equal(t, i+2, n)
		require.False(t, more)
	}
}

func TestAHeadShorterThanItsStoreIsFollowedByZeros(t *testing.T) {
	for n := 1; n <= 2*headStore; n++ {
		src := bytes.Repeat([]byte{0xff}, n)
		dst := make([]byte, 3*headStore)
		require.Nil(t, storeHeadLast(dst, [][]byte{src}))
		require.Equal(t, append(src, make([]byte, len(dst)-n)...), dst)
	}
}

// Another handle reads the log meanwhile: once it sees a head, it sees the body too.
func TestAReaderSeesHeadsOnlyWithTheirBodies(t *testing.T) {
	m, path := newMappedLog(t)
	r := newRecords(5, 3000)
	const count = 3000
	f := result.Of(OS.Open(path))(t)
	defer f.Close()
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		for i := range count {
			if _, err := m.Write(r.at(i)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	at := int64(0)
	head, body := make([]byte, headStore), make([]byte, 3000)
	for i := 0; i < count && !t.Failed(); {
		want := r.at(i)
		_, _ = f.ReadAt(head, at)
		// A store that crosses a cache line may be seen half-done, so wait for all of the head.
		if !bytes.Equal(head, want[:headStore]) {
			for j, b := range head {
				require.True(t, b == 0 || b == want[j])
			}
			runtime.Gosched()
			continue
		}
		got := body[:len(want)]
		result.Of(f.ReadAt(got, at))(t)
		require.Equal(t, want, got)
		at += int64(len(want))
		i++
	}
}
