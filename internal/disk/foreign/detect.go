package foreign

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/internal/base/errors"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// Finding is another engine's database.
type Finding struct {
	Engine string
	// Evidence says which files are the evidence.
	Evidence string
}

// Options limit which files are read.
type Options struct {
	// Quick checks only names if CURRENT exists and no name is a sign of another engine,
	// which is the case for almost every directory that is opened.
	Quick bool
	// ManifestReadLimit is the size in bytes above which a MANIFEST is not read; 0 means no limit.
	ManifestReadLimit int64
}

// Directory returns the other engine's database in the directory dir, or nil if there is none.
// names are its files. The error is that of a failed read.
func Directory(fsys vfs.FS, dir string, names []string, o Options) (*Finding, error) {
	l := &detector{fs: fsys, dir: dir, names: names, o: o, signs: map[string][]string{}}
	return l.detect()
}

// File returns the other engine's database in the file, or nil if it is not one.
func File(fsys vfs.FS, path string) (*Finding, error) {
	l := &detector{fs: fsys, dir: filepath.Dir(path)}
	head, err := l.head(filepath.Base(path))
	if engine := fileEngine(head); engine != "" {
		return &Finding{engine, "the file begins like its files"}, err
	}
	return nil, err
}

// detector examines one directory.
type detector struct {
	fs    vfs.FS
	dir   string
	names []string
	o     Options

	signs map[string][]string // the names of files by engine
	proof string              // the engine for which one sign is enough
	found *Finding
}

func (l *detector) detect() (*Finding, error) {
	if hasRiakLevels(l.names) {
		return &Finding{riak, "it contains the directories sst_0 to sst_6"}, nil
	}
	hasCurrent := slices.Contains(l.names, base.CurrentName)
	suspicious, err := l.readSigns()
	if err != nil || l.o.Quick && hasCurrent && !suspicious {
		return nil, err
	}
	if hasCurrent {
		if decided, err := l.checkCurrent(); decided || err != nil {
			return l.found, err
		}
	}
	manifests, tables, ours := l.leveldbNames()
	for _, name := range manifests {
		if _, _, err := l.readManifest(name); err != nil || l.found != nil {
			return l.found, err
		}
	}
	levelDBs, err := l.readTables(tables)
	if err != nil || l.found != nil {
		return l.found, err
	}
	if levelDBs {
		return nil, nil
	}
	if l.proof != "" {
		return l.bySigns(l.proof, 1), nil
	}
	for _, engine := range []string{pebble, rocksDB, badger} {
		if f := l.bySigns(engine, 2); f != nil {
			return f, nil
		}
	}
	if ours {
		return nil, nil
	}
	return l.detectFiles()
}

// leveldbNames returns the files with names that LevelDB gives, and whether one is there that LevelDB may have made.
func (l *detector) leveldbNames() (manifests, tables []string, ours bool) {
	for _, name := range l.names {
		kind, _, ok := base.ParseFileName(name)
		if !ok {
			continue
		}
		ours = ours || kind != base.FileLock && kind != base.FileInfoLog
		switch kind {
		case base.FileManifest:
			manifests = append(manifests, name)
		case base.FileTable, base.FileOldTable:
			tables = append(tables, name)
		}
	}
	return manifests, tables, ours
}

// checkCurrent decides by the current MANIFEST, if CURRENT and that MANIFEST are LevelDB's.
func (l *detector) checkCurrent() (decided bool, err error) {
	head, err := l.head(base.CurrentName)
	if err != nil {
		return false, err
	}
	if bytes.HasPrefix(head, []byte(netEaseHead)) {
		l.found = &Finding{netEase, "CURRENT begins with the bytes 80 1d 30 01, as its encrypted files do"}
		return true, nil
	}
	name, ended := strings.CutSuffix(string(head), "\n")
	if kind, _, ok := base.ParseFileName(name); !ended || !ok || kind != base.FileManifest {
		return false, nil
	}
	sound, named, err := l.readManifest(name)
	if err != nil || l.found != nil || !sound {
		return l.found != nil, err
	}
	tables := l.tablesNumbered(named)
	levelDBs, err := l.readTables(tables[:min(len(tables), sampledTables)])
	if err != nil || l.found != nil || levelDBs || slices.Contains(l.names, base.ClosedName) {
		return true, err
	}
	// A MANIFEST that lost its end, or all of it, names none of the existing tables.
	if levelDBs, err = l.hasLevelDBsTable(); err != nil || levelDBs {
		return true, err
	}
	// Badger has no CURRENT, so this one belongs to a database of LevelDB's in the same directory.
	for _, engine := range []string{pebble, rocksDB} {
		if l.found = l.bySigns(engine, 2); l.found != nil {
			break
		}
	}
	return true, nil
}

// sampledTables is how many of the tables named by an intact MANIFEST are read: other engines do
// not write tables into a MANIFEST with LevelDB's tags.
const sampledTables = 16

// tablesNumbered returns the names of the directory's tables with those numbers.
func (l *detector) tablesNumbered(numbers map[uint64]bool) (tables []string) {
	for _, name := range l.names {
		kind, num, ok := base.ParseFileName(name)
		if ok && (kind == base.FileTable || kind == base.FileOldTable) && numbers[num] {
			tables = append(tables, name)
		}
	}
	return tables
}

// readSigns collects signs. It reports whether any name may be a sign.
func (l *detector) readSigns() (suspicious bool, err error) {
	for _, name := range l.names {
		engine, contents := sign(name, nil)
		if contents {
			head, err := l.head(name)
			if err != nil {
				return true, err
			}
			engine, _ = sign(name, head)
		}
		suspicious = suspicious || contents || engine != ""
		if engine != "" {
			l.signs[engine] = append(l.signs[engine], name)
			if isProof(engine, name) {
				l.proof = engine
			}
		}
	}
	if suspicious && slices.Contains(l.names, base.InfoLogName) {
		head, err := l.head(base.InfoLogName)
		if err != nil {
			return true, err
		}
		if infoLogIsRocksDBs(head) {
			l.signs[rocksDB] = append(l.signs[rocksDB], base.InfoLogName)
		}
	}
	return suspicious, nil
}

// bySigns returns the finding from the engine's signs, or nil if there are fewer than least kinds of
// them. Several OPTIONS files are one kind, and so are several value logs.
func (l *detector) bySigns(engine string, least int) *Finding {
	kinds := map[string]bool{}
	var shown []string
	for _, name := range l.signs[engine] {
		kind := strings.TrimLeft(strings.TrimRight(name, "0123456789"), "0123456789")
		if strings.HasPrefix(name, "marker.") {
			kind = strings.Join(strings.SplitN(name, ".", 3)[:2], ".")
		}
		if !kinds[kind] {
			shown = append(shown, name)
		}
		kinds[kind] = true
	}
	if len(kinds) < least {
		return nil
	}
	return &Finding{engine, "it contains " + strings.Join(shown, ", ")}
}

// rocksDBOrPebble returns the engine for a proof that both RocksDB and Pebble leave.
func (l *detector) rocksDBOrPebble() string {
	switch r, p := len(l.signs[rocksDB]), len(l.signs[pebble]); {
	case p > r:
		return pebble
	case r > p:
		return rocksDB
	}
	return rocksDB + " or " + pebble
}

// readManifest reads the tags of a MANIFEST. sound means that all of it can be read as LevelDB reads
// it, except for an end that is cut off. tables are the tables that it adds.
func (l *detector) readManifest(name string) (sound bool, tables map[uint64]bool, err error) {
	f, size, err := l.open(name)
	if f == nil || err != nil {
		return false, nil, err
	}
	defer f.Close()
	if l.o.ManifestReadLimit > 0 && size > l.o.ManifestReadLimit {
		return false, nil, nil
	}
	tables = map[uint64]bool{}
	sound = true
	records := wal.NewReader(f, size, wal.ReaderOptions{AllowTornEnd: true})
	for {
		record, err := records.Next()
		switch {
		case errors.Is(err, io.EOF):
			return sound, tables, nil
		case base.IsUnreadable(err):
			sound = false
			if !records.Skip() {
				return false, tables, nil
			}
			continue
		case err != nil:
			return false, nil, base.InFile(err, l.path(name), -1)
		}
		e := decodeEdit(record)
		if e.foreign != 0 {
			l.found = &Finding{l.rocksDBOrPebble(), fmt.Sprintf("%s has an edit with the tag %d", name, e.foreign)}
			return false, nil, nil
		}
		sound = sound && (e.whole || e.newer)
		for _, num := range e.tables {
			tables[num] = true
		}
	}
}

// readTables reads the ends of tables. It reports whether one of them is LevelDB's.
func (l *detector) readTables(names []string) (levelDBs bool, err error) {
	for _, name := range names {
		engine, known, err := l.tableEngine(name)
		if err != nil {
			return false, err
		}
		levelDBs = levelDBs || known && engine == ""
		if engine == rocksDB && len(l.signs[pebble]) > 0 {
			engine = l.rocksDBOrPebble() // Pebble's old tables end like RocksDB's
		}
		if engine != "" {
			l.found = &Finding{engine, fmt.Sprintf("the table %s ends like its tables", name)}
			return levelDBs, nil
		}
	}
	return levelDBs, nil
}

// hasLevelDBsTable reports whether the directory has a table of LevelDB's.
func (l *detector) hasLevelDBsTable() (bool, error) {
	for _, name := range l.names {
		kind, _, ok := base.ParseFileName(name)
		if !ok || kind != base.FileTable && kind != base.FileOldTable {
			continue
		}
		if engine, known, err := l.tableEngine(name); err != nil || known && engine == "" {
			return err == nil, err
		}
	}
	return false, nil
}

// tableEngine returns the engine whose tables end as the given one does, or "" for LevelDB. known is
// false if there is no such engine.
func (l *detector) tableEngine(name string) (engine string, known bool, err error) {
	f, size, err := l.open(name)
	if f == nil || err != nil {
		return "", false, err
	}
	end := make([]byte, min(size, codec.FooterLen))
	_, err = vfs.ReadFull(f, end, size-int64(len(end)))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", false, base.InFile(err, l.path(name), -1)
	}
	engine, known = codec.TableEngine(end)
	return engine, known, nil
}

// maxFiles limits how many files of a directory are checked for being single-file databases.
const maxFiles = 100

// detectFiles searches for a single-file database.
func (l *detector) detectFiles() (*Finding, error) {
	for _, name := range l.names[:min(len(l.names), maxFiles)] {
		head, err := l.head(name)
		if err != nil {
			return nil, err
		}
		if engine := fileEngine(head); engine != "" {
			return &Finding{engine, fmt.Sprintf("the file %s begins like its files", name)}, nil
		}
	}
	return nil, nil
}

func (l *detector) path(name string) string { return filepath.Join(l.dir, name) }

// head returns the first bytes of a file, or none if it cannot be opened.
func (l *detector) head(name string) ([]byte, error) {
	f, size, err := l.open(name)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, min(size, headSize))
	if _, err := vfs.ReadFull(f, b, 0); err != nil {
		return nil, base.InFile(err, l.path(name), 0)
	}
	return b, nil
}

// open opens a file of the directory and returns its size. The file is nil if it cannot be evidence:
// it is missing, not a plain file, or not readable for this user.
func (l *detector) open(name string) (vfs.File, int64, error) {
	info, err := l.fs.Lstat(l.path(name))
	if err == nil && !info.Mode().IsRegular() {
		return nil, 0, nil
	}
	var f vfs.File
	if err == nil {
		f, err = l.fs.Open(l.path(name))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}
