package vfs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// logMount is set in the environment of a process that has its own namespaces, to the directory to mount a file system
// on.
const logMount = "SIEVEDB_LOG_MOUNT"

// cannotMountLog is the exit code of that process if it may not mount.
const cannotMountLog = 77

// inNamespace runs the calling test again where it may mount. It returns the directory to mount on in that process. In
// the first one it returns "", and whether the other could mount.
//
// Root can mount in a separate mount namespace. Others need a user namespace as well, in which only some file systems
// can be mounted.
func inNamespace(t *testing.T) (dir string, mounted bool) {
	if dir := os.Getenv(logMount); dir != "" {
		noMount(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		return dir, true
	}
	for _, attr := range []*syscall.SysProcAttr{
		{Cloneflags: syscall.CLONE_NEWNS},
		{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), logMount+"="+t.TempDir())
		cmd.SysProcAttr = attr
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() != cannotMountLog {
			t.Logf("in a namespace:\n%s", out)
			require.NoError(t, err)
			return "", true
		}
		t.Logf("not mounted: %v %s", err, bytes.TrimSpace(out))
	}
	return "", false
}

func noMount(err error) {
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(cannotMountLog)
	}
}

// A tmpfs is filled with logs, again and again. No Write ends the process with SIGBUS, each failure is ErrNoSpace and
// has appended nothing, and the same logs continue when there is space.
func TestMappedLogsFillADisk(t *testing.T) {
	dir, mounted := inNamespace(t)
	if !mounted {
		t.Skip("NO REAL DISK WAS FILLED: the system does not allow mounting one; db's simulated disks test the same errors")
	}
	if dir == "" {
		return
	}
	noMount(syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size=3M"))
	fillWithLogs(t, dir)
}

func fillWithLogs(t *testing.T, dir string) {
	var logs []*fillingLog
	for i := range 5 {
		sub := filepath.Join(dir, strconv.Itoa(i))
		require.NoError(t, os.Mkdir(sub, 0o700))
		m, path := mappedLogIn(t, sub)
		logs = append(logs, &fillingLog{m: m, path: path})
	}
	const rounds = 6
	ballast := func(round int) string { return filepath.Join(dir, "ballast"+strconv.Itoa(round)) }
	for round := range rounds {
		require.NoError(t, os.WriteFile(ballast(round), make([]byte, 200<<10), 0o600))
	}
	for round := range rounds {
		for i := 0; ; i++ {
			if full := logs[i%len(logs)].append(t, 1+i*7919%30_000); full && i%len(logs) == round%len(logs) {
				break
			}
		}
		for _, l := range logs { // the last bytes of the disk
			for !l.append(t, 100) {
			}
		}
		require.NoError(t, os.Remove(ballast(round)))
		for _, l := range logs {
			require.False(t, l.append(t, 100), "there is space again")
			require.NoError(t, l.m.Sync())
		}
	}
	for _, l := range logs {
		require.False(t, l.m.plain)
		require.NoError(t, l.m.Close())
		got := result.Of(os.ReadFile(l.path))(t)
		require.True(t, bytes.Equal(l.want, got))
	}
}

type fillingLog struct {
	m    *mappedLog
	path string
	want []byte
}

// append reports whether the disk is full.
func (l *fillingLog) append(t *testing.T, n int) (full bool) {
	p := bytes.Repeat([]byte{byte(len(l.want)%255 + 1)}, n)
	n, err := l.m.Write(p)
	l.want = append(l.want, p[:n]...)
	if err == nil {
		return false
	}
	require.Zero(t, n)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, base.NoSpace(err), base.ErrNoSpace)
	require.ErrorContains(t, err, l.path)
	size := result.Of(l.m.Size())(t)
	require.EqualValues(t, len(l.want), size)
	return true
}

// A log is on an ext4 of its own, on a loop device, that fails in the ways of a real one.
func TestAMappedLogOnAFailingDevice(t *testing.T) {
	dir, mounted := inNamespace(t)
	if !mounted {
		t.Skip("NO DEVICE FAILED: the system does not allow mounting one; " +
			"TestAMappedLogThatWasTruncatedIsAnError causes the same fault by truncating the file")
	}
	if dir == "" {
		return
	}
	t.Run("a page that cannot be read is an error of Write", func(t *testing.T) {
		d := newLoopDisk(t, dir)
		m, path := mappedLogIn(t, dir)
		appendTo(t, m, 10_000, 'a')
		require.NoError(t, unix.Fsync(d.root))
		require.NoError(t, m.Sync())
		require.NoError(t, unix.Madvise(m.window, unix.MADV_DONTNEED)) // so that the page is read again
		require.NoError(t, onDescriptor(m.file.f, func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) }))
		require.NoError(t, os.Truncate(d.image, 0))
		n, err := m.Write(bytes.Repeat([]byte{'b'}, 20_000))
		require.Zero(t, n)
		require.ErrorIs(t, err, errLogFault)
		require.EqualValues(t, 10_000, m.size.Load())
		requireLastError(t, m, path, err)
	})
	// As with write(2), what is in the page cache only is lost with the device, and Sync says so.
	t.Run("a device that cannot be written is an error of Sync", func(t *testing.T) {
		d := newLoopDisk(t, dir)
		m, _ := mappedLogIn(t, dir)
		appendTo(t, m, 10_000, 'a')
		require.NoError(t, m.Sync())
		d.refuseWrites(t)
		appendTo(t, m, 20_000, 'a')
		require.ErrorIs(t, m.Sync(), syscall.EIO)
	})
	t.Run("a file system that has shut down is an error of Sync and of the next reservation", func(t *testing.T) {
		d := newLoopDisk(t, dir)
		m, path := mappedLogIn(t, dir)
		appendTo(t, m, 10_000, 'a')
		require.NoError(t, m.Sync())
		d.shutdown(t)
		appendTo(t, m, 20_000, 'a')
		require.ErrorIs(t, m.Sync(), syscall.EIO)
		n, err := m.Write(bytes.Repeat([]byte{'b'}, minReserve))
		require.Zero(t, n)
		require.ErrorIs(t, err, syscall.EIO)
		requireLastError(t, m, path, err)
	})
}

// requireLastError checks that err ends the writes of m.
func requireLastError(t *testing.T, m *mappedLog, path string, err error) {
	require.ErrorContains(t, err, path)
	require.False(t, base.IsNoSpace(err))
	_, again := m.Write([]byte("c"))
	require.Equal(t, err, again)
	_ = m.Close()
}

// loopDisk is a mounted ext4 in a file of a tmpfs.
type loopDisk struct {
	image string
	root  int // descriptor of its root directory
}

func newLoopDisk(t *testing.T, dir string) *loopDisk {
	memory := t.TempDir()
	noMount(syscall.Mount("tmpfs", memory, "tmpfs", 0, "mode=0700,size=32M"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(memory, 0)) })
	d := &loopDisk{image: filepath.Join(memory, "image")}
	require.NoError(t, os.WriteFile(d.image, nil, 0o600))
	require.NoError(t, os.Truncate(d.image, 32<<20))
	out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput()
	if err != nil {
		_, _ = os.Stderr.Write(out)
		noMount(err)
	}
	loop, device := attachLoop(t, d.image)
	noMount(syscall.Mount(device, dir, "ext4", 0, ""))
	require.NoError(t, unix.Close(loop))
	d.root = result.Of(unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0))(t)
	t.Cleanup(func() {
		_ = unix.Close(d.root)
		require.NoError(t, unix.Unmount(dir, 0))
	})
	return d
}

// attachLoop makes a file a block device. It remains one until the descriptor is closed and the device unmounted.
func attachLoop(t *testing.T, image string) (loop int, device string) {
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR, 0)
	noMount(err)
	defer func() { require.NoError(t, unix.Close(control)) }()
	file := result.Of(unix.Open(image, unix.O_RDWR, 0))(t)
	defer func() { require.NoError(t, unix.Close(file)) }()
	for {
		n, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		noMount(err)
		device = "/dev/loop" + strconv.Itoa(n)
		loop, err = unix.Open(device, unix.O_RDWR, 0)
		noMount(err)
		err = unix.IoctlLoopConfigure(loop, &unix.LoopConfig{
			Fd: uint32(file), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		})
		if err == unix.EBUSY { // another process was faster
			require.NoError(t, unix.Close(loop))
			continue
		}
		noMount(err)
		return loop, device
	}
}

// shutdown makes the file system refuse all writes, as after a failure of its journal. It is EXT4_IOC_SHUTDOWN without
// a flush of the journal.
func (d *loopDisk) shutdown(t *testing.T) {
	const shutdown, noFlush = 0x8004587d, 2
	flags := uint32(noFlush)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.root), shutdown, uintptr(unsafe.Pointer(&flags)))
	require.Zero(t, errno, "EXT4_IOC_SHUTDOWN")
}

// refuseWrites makes writes fail to those parts of the device that were not written before: what is behind it is full.
func (d *loopDisk) refuseWrites(t *testing.T) {
	f, err := os.Create(d.image + ".ballast")
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
}
