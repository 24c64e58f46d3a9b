package db

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// killDirEnv tells the test binary that it is the child of the kill test, and
// where its database is.
const killDirEnv = "SIEVEDB_KILL_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDirEnv); dir != "" {
		writeUntilKilled(dir)
	}
	code := m.Run()
	if v := brokenOrder.violations; len(v) > 0 {
		fmt.Println("order of operations:", strings.Join(v, "\n"))
		code = 1
	}
	os.Exit(code)
}

// writeUntilKilled puts one key after another and says each number once its Put
// has returned.
func writeUntilKilled(dir string) {
	d, err := Open(dir, &Options{WriteBufferSize: 64 << 10, TableSize: 32 << 10, L0CompactionTrigger: 2})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	first := 0
	it, err := d.NewIterator(nil)
	if err == nil && it.Last() {
		first, err = strconv.Atoi(strings.TrimPrefix(string(it.Key()), "key"))
		first++
	}
	if err == nil {
		err = it.Close()
	}
	for i := first; err == nil; i++ {
		if err = d.Put(testKey(i), testValue(i), NoSync); err == nil {
			fmt.Println(i)
		}
	}
	fmt.Println("write:", err)
	os.Exit(1)
}

// A child process writes, without syncing, and is killed at some moment, again
// and again; what it said it had written must be there each time.
func TestKilledProcessesLoseNoAcknowledgedWrite(t *testing.T) {
	dir := t.TempDir()
	last := -1
	for round := range 8 {
		child := exec.Command(os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), killDirEnv+"="+dir)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for goal := last + 1 + 1700*round; last < goal && lines.Scan(); {
			n, err := strconv.Atoi(lines.Text())
			require.NoError(t, err, "the child failed")
			last = max(last, n)
		}
		require.NoError(t, child.Process.Kill())
		for lines.Scan() { // what it had acknowledged by the time it died
			if n, err := strconv.Atoi(lines.Text()); err == nil && n == last+1 {
				last = n
			}
		}
		_ = child.Wait() // killed

		d, err := Open(dir, &Options{ReadOnly: round%2 == 0})
		require.NoError(t, err)
		for i := range last + 1 {
			requireValue(t, d, testKey(i), testValue(i))
		}
		require.NoError(t, d.Close())
	}
	require.Greater(t, last, 40000)
}
