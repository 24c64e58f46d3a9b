package backup

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// formatText is the content of FORMAT.
const formatText = "sievedb backup repository 1\n"

// Repository is a repository of backups. Its methods may be called from any goroutine, several at once,
// also for the same storage from other processes and machines.
type Repository struct {
	storage Storage
	now     func() time.Time // time.Now, except in tests
}

// Open returns the repository in a storage. It reads and writes nothing; the first Create makes the repository.
func Open(storage Storage) *Repository { return &Repository{storage, time.Now} }

// check returns an error unless the storage has a repository of this version.
func (r *Repository) check(ctx context.Context) error {
	text, err := r.read(ctx, formatName, 1<<10)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.Wrap(err, "sievedb: backup: there is no repository; the first backup makes one")
	case err != nil:
		return errors.Wrap(err, "sievedb: backup: reading FORMAT")
	case string(text) != formatText:
		err := versionFault("FORMAT", string(text), formatText)
		return errors.Wrapf(err, "sievedb: backup: FORMAT says %q; want %q", text, formatText)
	}
	return nil
}

// versionFault returns the error for a text whose first line is not known, the title of this version: a
// sievedb.NewerError if only the version at its end differs and is higher.
func versionFault(part, line, known string) error {
	end := strings.LastIndexByte(known, ' ') + 1
	digits, ours := strings.CutPrefix(strings.TrimSuffix(line, "\n"), known[:end])
	version, err := strconv.ParseUint(digits, 10, 32)
	latest, _ := strconv.ParseUint(strings.TrimSuffix(known[end:], "\n"), 10, 32)
	if ours && err == nil && version > latest {
		return base.Newerf(part, 0, "it has version %d; the latest known one is %d", version, latest)
	}
	return base.Corruptf(part, 0, "its first line is %q; want %q", line[:min(len(line), 40)], known)
}

// begin makes the repository if the storage is empty.
func (r *Repository) begin(ctx context.Context) error {
	err := r.check(ctx)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for o, err := range r.storage.List(ctx, "") {
		if err != nil {
			return errors.Wrap(err, "sievedb: backup: looking for a repository")
		}
		if strings.HasPrefix(o.Name, tempPrefix) {
			continue
		}
		// Another backup may have made the repository just now: FORMAT is its first object.
		if err = r.check(ctx); errors.Is(err, fs.ErrNotExist) {
			err = errors.Newf("sievedb: backup: the storage has %q and no FORMAT, so it is not a repository; choose an empty one",
				o.Name)
		}
		return err
	}
	err = r.storage.Create(ctx, formatName, strings.NewReader(formatText))
	if errors.Is(err, fs.ErrExist) {
		return r.check(ctx)
	}
	return errors.Wrap(err, "sievedb: backup: making the repository")
}

// read returns the content of an object of at most limit bytes.
func (r *Repository) read(ctx context.Context, name string, limit int64) ([]byte, error) {
	o, err := r.storage.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	text, err := io.ReadAll(&lineReader{r: io.LimitReader(withContext{ctx, o}, limit+1), name: name})
	if err == nil && int64(len(text)) > limit {
		err = base.Corruptf(name, -1, "it is larger than %d bytes", limit)
	}
	return text, err
}

// maxTextLine is the longest line of a text, in bytes. The longest has the name of a database.
const (
	maxTextLine     = 64 << 10
	maxDatabaseName = 4 << 10
)

// lineReader returns an error if a line is too long. A file with a hole, which needs no space on disk, would
// otherwise be read into memory up to the limit.
type lineReader struct {
	r    io.Reader
	name string
	n    int // bytes since the last end of a line
}

func (l *lineReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p[:min(len(p), maxTextLine)])
	if end := bytes.LastIndexByte(p[:n], '\n'); end < 0 {
		l.n += n
	} else {
		l.n = n - end - 1
	}
	if l.n > maxTextLine {
		err = base.Corruptf(l.name, -1, "it has a line of more than %d bytes", maxTextLine)
	}
	return n, err
}

// create makes a small object.
func (r *Repository) create(ctx context.Context, name string, text []byte) error {
	return r.storage.Create(ctx, name, bytes.NewReader(text))
}

// ids returns the sorted IDs of the objects whose names begin with prefix.
func (r *Repository) ids(ctx context.Context, prefix string) (ids []string, err error) {
	for o, err := range r.storage.List(ctx, prefix) {
		if err != nil {
			return nil, errors.Wrapf(err, "sievedb: backup: listing %s", prefix)
		}
		if id := strings.TrimPrefix(o.Name, prefix); validID(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// manifest reads the manifest of a backup.
func (r *Repository) manifest(ctx context.Context, id string) (*manifest, error) {
	text, err := r.read(ctx, backupPrefix+id, maxManifest)
	var m *manifest
	if err == nil {
		m, err = decodeManifest(text, id)
	}
	if err != nil {
		return nil, errors.Wrapf(err, "sievedb: backup: reading %s%s", backupPrefix, id)
	}
	return m, nil
}

// manifests reads the manifests of all backups, the oldest first. A backup that is removed meanwhile
// is left out. known has those that were read before, by their IDs, and gets the others. If some cannot be
// read, it returns the others and the errors.
func (r *Repository) manifests(ctx context.Context, known map[string]*manifest) (all []*manifest, err error) {
	ids, err := r.ids(ctx, backupPrefix)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		m := known[id]
		if m == nil {
			var merr error
			m, merr = r.manifest(ctx, id)
			switch {
			case errors.Is(merr, fs.ErrNotExist):
				continue
			case ctx.Err() != nil:
				return all, ctx.Err()
			case merr != nil:
				err = errors.CombineErrors(err, merr)
				continue
			}
		}
		known[id] = m
		all = append(all, m)
	}
	return all, err
}

// List returns the backups, the oldest first. If the descriptions of some are damaged or cannot be read, it
// returns the others and an error.
func (r *Repository) List(ctx context.Context) ([]Info, error) {
	if ctx == nil {
		return nil, errors.New("sievedb: backup: List needs a context")
	}
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	all, err := r.manifests(ctx, map[string]*manifest{})
	infos := make([]Info, len(all))
	for i, m := range all {
		infos[i] = m.Info
	}
	return infos, err
}
