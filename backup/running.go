package backup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/work/checkpoint"
	"github.com/sievedb/sievedb/vfs"
)

// announcement is the content of running/ID: lines of a word and a quoted text. Unknown lines are ignored, as older
// versions ignore all but the first one.
type announcement struct {
	database string
	// host is the machine, and lock the file that is locked there while the backup is made; "" if there is none.
	host, lock string
}

// reserve is how many additional bytes an announcement in a directory has. If a backup fills the disk, its end frees
// them, and Prune has room for the lists that it must write before it can delete anything. The bytes are random, so
// that a file system cannot compress them.
const reserve = 64 << 10

func (a announcement) encode(reserved int) []byte {
	text := fmt.Appendf(nil, "database %q\nhost %q\nlock %q\n", a.database, a.host, a.lock)
	for len(text) < reserved {
		text = fmt.Appendf(text, "reserve \"%016x\"\n", rand.Uint64())
	}
	return text
}

// decodeAnnouncement never fails: a field that it cannot read is empty.
func decodeAnnouncement(text []byte) (a announcement) {
	for line := range strings.Lines(string(text)) {
		word, quoted, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		value, err := strconv.Unquote(quoted)
		if err != nil {
			continue
		}
		switch word {
		case "database":
			a.database = value
		case "host":
			a.host = value
		case "lock":
			a.lock = value
		}
	}
	return a
}

// hostName returns the name of this machine; "" if it has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// announce writes running/ID. The file lock is locked until the backup ends.
func (c *creation) announce(lock string) error {
	a, reserved := announcement{c.m.Database, hostName(), lock}, 0
	if _, ok := c.storage.(*dirStorage); ok {
		reserved = reserve
	}
	return c.create(c.ctx, runningPrefix+c.m.ID, a.encode(reserved))
}

// maxAnnouncement is larger than every announcement, in bytes.
const maxAnnouncement = 1 << 20

// localFS is the file system of the locks of backups that this machine makes.
func (r *Repository) localFS() vfs.FS {
	if d, ok := r.storage.(*dirStorage); ok {
		return d.fs
	}
	return vfs.OS
}

// dropDead removes the announcements of backups whose process has ended, and returns their IDs. A process has ended if
// its lock is free. Only the machine that holds a lock can know that, and only while the file of the lock exists; a
// backup removes the file after its announcement. All other announcements are left for dropAbandoned. A dry run removes
// nothing.
func (r *Repository) dropDead(ctx context.Context, dryRun bool) (dead []string, err error) {
	ids, err := r.ids(ctx, runningPrefix)
	for _, id := range ids {
		if err != nil {
			return nil, err
		}
		var gone bool
		if gone, err = r.dropIfDead(ctx, id, dryRun); gone {
			dead = append(dead, id)
		}
	}
	return dead, err
}

func (r *Repository) dropIfDead(ctx context.Context, id string, dryRun bool) (dead bool, err error) {
	text, err := r.read(ctx, runningPrefix+id, maxAnnouncement)
	if err != nil { // the backup may have ended just now
		return false, ctx.Err()
	}
	a := decodeAnnouncement(text)
	if host := hostName(); !isBackupLock(a.lock) || host == "" || a.host != host {
		return false, nil
	}
	fsys := r.localFS()
	if info, err := fsys.Lstat(a.lock); err != nil || !info.Mode().IsRegular() {
		return false, nil // to lock a missing file would make it
	}
	lock, err := fsys.Lock(a.lock, false)
	if err != nil { // base.ErrLocked, usually
		return false, nil
	}
	if !dryRun {
		if err = r.dropTemps(ctx, id); err == nil { // later nothing says that they can be removed
			err = r.storage.Delete(ctx, runningPrefix+id)
		}
	}
	return err == nil, errors.CombineErrors(err, lock.Close())
}

// isBackupLock reports whether a path can be that of a lock which a backup holds. Someone else may have written the
// announcement, and locking other files could stop other programs.
func isBackupLock(path string) bool {
	name, ok := strings.CutSuffix(filepath.Base(path), checkpoint.LockSuffix)
	return ok && lastID(name) != "" && strings.HasSuffix(name, lastID(name))
}

// dropTemps removes the temporary objects of a backup that has ended.
func (r *Repository) dropTemps(ctx context.Context, id string) error {
	for o, err := range r.storage.List(ctx, tempPrefix) {
		if err == nil && strings.Contains(o.Name, id) {
			err = r.storage.Delete(ctx, o.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pieces is the number of objects in one list if the disk is too full for a list of all.
const pieces = 64

// free condemns the objects that no backup needs, and deletes what can be deleted. Where the disk is too full for the
// list of all objects, it does so in pieces: each makes room for the next list.
func (u *pruning) free() error {
	for {
		err := u.condemn(0)
		full := base.IsNoSpace(err)
		if full {
			err = u.condemn(pieces)
		}
		if err == nil {
			before := u.report.Objects
			if err = u.deleteCondemned(); err == nil && full && u.report.Objects > before {
				u.report.Waiting = 0
				continue
			}
		}
		return base.NoSpace(err)
	}
}
