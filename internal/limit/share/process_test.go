package share

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestTheMemoryOfTheProcessIsTheLeastLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	machine := file("MemFree: 1 kB\nMemTotal:       16384000 kB\n")
	for name, c := range map[string]struct {
		files   fstest.MapFS
		goLimit int64
		want    int64
	}{
		"another system": {fstest.MapFS{}, math.MaxInt64, unknownMemory},
		"GOMEMLIMIT":     {fstest.MapFS{"proc/meminfo": machine}, 3 << 30, 3 << 30},
		"the machine":    {fstest.MapFS{"proc/meminfo": machine}, math.MaxInt64, 16384000 << 10},
		"no limit": {fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("max\n"),
		}, math.MaxInt64, 16384000 << 10},
		"a group": {fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("2000000\n"),
			"sys/fs/cgroup/a/memory.max":   file("9000000\n"),
		}, math.MaxInt64, 2000000},
		"a group around it": {fstest.MapFS{
			"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/memory.max": file("1000000\n"),
		}, math.MaxInt64, 1000000},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/x\n3:cpu:/\nbroken\n"),
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("3000000\n"),
		}, math.MaxInt64, 3000000},
		"version 1 in a container": {fstest.MapFS{
			"proc/self/cgroup":                           file("4:memory:/outside\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("4000000\n"),
		}, math.MaxInt64, 4000000},
	} {
		require.Equal(t, c.want, processMemory(c.files, c.goLimit), name)
	}
}
