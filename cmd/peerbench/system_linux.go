package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cpuSeconds returns the CPU time of all threads of this process.
func cpuSeconds() float64 { return seconds(usage().Utime) + seconds(usage().Stime) }

func seconds(t unix.Timeval) float64 { return float64(t.Nano()) / 1e9 }

func usage() unix.Rusage {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail for RUSAGE_SELF
	return u
}

// readIO returns the process's reads and writes, and false if the system does not count them.
func readIO() (ioCounts, bool) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return ioCounts{}, false
	}
	field := func(name string) uint64 {
		_, after, _ := strings.Cut("\n"+string(text), "\n"+name+": ")
		number, _, _ := strings.Cut(after, "\n")
		n, _ := strconv.ParseUint(number, 10, 64)
		return n
	}
	return ioCounts{
		ReadCalls: field("syscr"), ReadBytes: field("read_bytes"),
		WriteBytes: field("write_bytes"), WriteCallBytes: field("wchar"),
		MajorFaults: uint64(usage().Majflt),
	}, true
}

// waitsForDevice reports whether a thread of this process waits for a read, a write or a sync.
func waitsForDevice() bool {
	threads, _ := filepath.Glob("/proc/self/task/*/stat")
	for _, name := range threads {
		text, _ := os.ReadFile(name) // a thread may have ended
		_, state, _ := strings.Cut(string(text), ") ")
		if strings.HasPrefix(state, "D") {
			return true
		}
	}
	return false
}

// dropPageCache removes the files below dir from the page cache, except for pages that this process has mapped.
func dropPageCache(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an open engine may remove files
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil { // dirty pages would stay
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// allocated returns the disk space of a file, without holes: engines may preallocate files.
func allocated(info fs.FileInfo) uint64 {
	const block = 512 // on every file system
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Blocks) * block
	}
	return uint64(info.Size())
}
