package db_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// advisedMemory returns the bytes of the process for which huge pages were requested, the flag "hg" of
// proc_pid_smaps(5).
func advisedMemory(t *testing.T) (n uint64) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Log("not available here: ", err)
		return 0
	}
	var start, end uint64
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		switch {
		case !bytes.HasSuffix(fields[0], []byte(":")):
			_, err := fmt.Sscanf(string(fields[0]), "%x-%x", &start, &end)
			require.NoError(t, err)
		case string(fields[0]) == "VmFlags:" && bytes.Contains(line, []byte(" hg")):
			n += end - start
		}
	}
	return n
}

// The kernel may bring back memory that was advised for huge pages after the heap has released it. So a closed store
// leaves no memory advised, and an open one only the memtables that take entries or soon will.
func TestOnlyMemtablesThatFillAreAdvised(t *testing.T) {
	before := advisedMemory(t)
	o := &db.Options{
		FS: vfs.NewMem(), Memtables: db.MemtableOptions{Size: 8 << 20}, Cache: db.CacheOptions{Size: 16 << 20},
	}
	d := mustOpen(t, o)
	value := make([]byte, 1<<20)
	for k := range 60 { // seven memtables
		require.NoError(t, d.Put(testKey(k), value, db.NoSync))
	}
	require.NoError(t, d.Flush())
	waitUntilIdle(d)
	for k := range 60 {
		requireValue(t, d, testKey(k), value)
	}
	require.LessOrEqual(t, advisedMemory(t), before+2*(8<<20)+(4<<20))
	for k := range 7 { // the next one is made ahead
		require.NoError(t, d.Put(testKey(k), value, db.NoSync))
	}
	require.NoError(t, d.Close())
	require.LessOrEqual(t, advisedMemory(t), before)

	o.ReadOnly = true // the log is in memory
	d = mustOpen(t, o)
	requireValue(t, d, testKey(1), value)
	require.NoError(t, d.Close())
	require.LessOrEqual(t, advisedMemory(t), before)
}
