package backup_test

import (
	"bytes"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// A process is killed at any operation of a backup or a prune, another process continues, and then the
// power fails. What the first one had not synced is lost, although the second one has seen it: a backup
// must not rely on such an object, nor a prune on such a deletion.
func TestAPowerCutAfterAProcessWasKilled(t *testing.T) {
	d := open(t, "db", smallOptions(vfs.NewMem()))
	fill(t, d, 0, 100, "value")
	require.NoError(t, d.Compact(background, nil, nil))
	start := vfs.NewMem()
	create(t, backup.Open(newDir(t, start, "repo")), d, nil)
	fill(t, d, 0, 60, "other")
	require.NoError(t, d.Compact(background, nil, nil))
	want := contents(t, d)

	again := func(r *backup.Repository) error { return second(r.Create(background, d, nil)) }
	prune := prune(1)
	for name, call := range map[string][]func(r *backup.Repository) error{
		"Create": {again, again}, "Prune": {prune, prune}, "both": {again, prune}, "Prune, then Create": {prune, again},
	} {
		t.Run(name, func(t *testing.T) {
			for at, killed := uint64(0), true; killed; at++ {
				mem := start.Kill()
				if name == "Prune" {
					require.NoError(t, again(backup.Open(newDir(t, mem, "repo"))))
				}
				faulty := wrap.NewFaulty(mem, wrap.FailFrom(at, errors.New("killed")))
				killed = call[0](backup.Open(newDir(t, faulty, "repo"))) != nil
				if at%3 > 0 || testing.Short() && at%5 > 0 {
					continue
				}
				require.NoError(t, call[1](backup.Open(newDir(t, mem, "repo"))))
				repo := backup.Open(newDir(t, mem.Crash(), "repo"))
				verifyClean(t, repo)
				if name == "Create" {
					require.Equal(t, want, restored(t, repo, ""), "operation %d", at)
				}
			}
		})
	}
}

// The disk of a repository in a directory is full, or fails, at any operation, once or from then on. The
// repository is valid and has no unfinished object, and the call can be repeated.
func TestAFullDiskAtEveryOperationOfARepository(t *testing.T) {
	writing := []wrap.OpKind{wrap.OpCreate, wrap.OpWrite, wrap.OpSync, wrap.OpLink, wrap.OpMkdirAll, wrap.OpSyncDir, wrap.OpRemove}
	eachCall(t, func(t *testing.T, c call, original *place) {
		start := vfs.NewMem()
		s := newDir(t, start, "repo")
		for name, content := range original.storage.Objects() {
			require.NoError(t, s.Create(background, name, bytes.NewReader(content)))
		}
		for at := range operations(17) {
			p, mem := original.clone(t), start.Kill()
			f := &faults{at: at, sticky: at%2 == 0, err: syscall.ENOSPC}
			stays := false // an unfinished object, because it cannot be removed
			err := c.do(p, backup.Open(newDir(t, wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
				if slices.Contains(writing, op.Kind) && f.next() {
					stays = f.sticky || op.Kind == wrap.OpRemove
					return &wrap.Fault{Err: f.err}
				}
				return nil
			}), "repo")), p.mem)
			if f.n <= at {
				require.NoError(t, err)
				return
			}
			if err != nil {
				require.ErrorIs(t, err, db.ErrNoSpace, "operation %d", at)
			}
			repo := backup.Open(newDir(t, mem, "repo"))
			verifyClean(t, repo)
			if _, err := mem.Stat("repo/tmp"); err == nil && !stays {
				require.Empty(t, files(t, mem, "repo/tmp"), "operation %d", at)
			}
			_ = db.Destroy("restored", &db.Options{FS: p.mem})
			require.NoError(t, c.do(p, repo, p.mem))
			verifyClean(t, repo)
		}
	})
}
