package db_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// fillMount is set in the environment of the process that has its own namespaces, to the directory to
// mount its disk on.
const fillMount = "SIEVEDB_FILL_MOUNT"

// cannotMount is the exit code of that process if it may not mount.
const cannotMount = 77

// A real disk, a tmpfs of 16 MiB, is filled repeatedly. Writes fail with ErrNoSpace, reads are right,
// and when another file is removed, the store continues. Nothing acknowledged is lost.
//
// Mounting needs rights that a test seldom has. Root has them in a separate mount namespace. Other users need a user
// namespace as well, if the system allows it. Otherwise the same fills go to a simulated disk, and the log says so.
func TestFillsOfARealDisk(t *testing.T) {
	if dir := os.Getenv(fillMount); dir != "" {
		disk := mountedDisk(t, dir)
		runFills(t, disk, *fillCount)
		require.NoError(t, db.Destroy(disk.dir, &db.Options{FS: disk.fs}))
		runReserve(t, disk)
		return
	}
	count := *fillCount
	if sampled() {
		count = min(count, 2)
	}
	for _, way := range []struct {
		name string
		attr *syscall.SysProcAttr
	}{
		{"a mount namespace", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}},
		{"a user and a mount namespace", &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}},
	} {
		out, err, mounted := fillInNamespace(t, way.attr, count)
		if mounted {
			t.Logf("in %s:\n%s", way.name, out)
			require.NoError(t, err)
			return
		}
		t.Logf("no tmpfs in %s: %v %s", way.name, err, bytes.TrimSpace(out))
	}
	t.Logf("NO REAL DISK: the system does not allow mounting one; %d fills of the simulated disk instead", count)
	runFills(t, simulatedDisk(), count)
}

// fillInNamespace runs the test again in a process with those attributes.
func fillInNamespace(t *testing.T, attr *syscall.SysProcAttr, count int) (out []byte, err error, mounted bool) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFillsOfARealDisk$", "-test.v",
		"-fill.count="+strconv.Itoa(count), "-fill.seed="+strconv.FormatUint(*fillSeed, 10))
	cmd.Env = append(os.Environ(), fillMount+"="+t.TempDir())
	cmd.SysProcAttr = attr
	out, err = cmd.CombinedOutput()
	// Without a process state, the process did not start.
	return out, err, cmd.ProcessState != nil && cmd.ProcessState.ExitCode() != cannotMount
}

// mountedDisk mounts a tmpfs that only this process's namespace sees and that disappears with the process.
func mountedDisk(t *testing.T, dir string) fillDisk {
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+strconv.Itoa(fillDiskSize))
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(cannotMount)
	}
	var stat syscall.Statfs_t
	require.NoError(t, syscall.Statfs(dir, &stat))
	require.EqualValues(t, 0x01021994, stat.Type, "tmpfs, statfs(2)")
	require.EqualValues(t, fillDiskSize, uint64(stat.Blocks)*uint64(stat.Bsize))
	t.Logf("a tmpfs of %d bytes", fillDiskSize)
	ballast := filepath.Join(dir, "ballast")
	return fillDisk{dir: filepath.Join(dir, "db"), ballast: func(sizeBytes int) error {
		if sizeBytes == 0 {
			return os.Remove(ballast)
		}
		return os.WriteFile(ballast, make([]byte, sizeBytes), 0o600)
	}}
}
