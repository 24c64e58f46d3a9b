package interop

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// RocksDB is RocksDB's two tools, sst_dump and ldb.
type RocksDB struct{ sstDump, ldb string }

// FindRocksDB looks the tools up. The error wraps ErrUnavailable.
func FindRocksDB() (*RocksDB, error) {
	var r RocksDB
	for name, path := range map[string]*string{"sst_dump": &r.sstDump, "ldb": &r.ldb} {
		var err error
		if *path, err = exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("%w: RocksDB's %s (Debian: rocksdb-tools)", ErrUnavailable, name)
		}
	}
	return &r, nil
}

// Scan returns the entries of the database in dir as ldb reads them.
func (r *RocksDB) Scan(dir string) ([]Entry, error) {
	out, err := exec.Command(r.ldb, "--db="+dir, "--hex", "scan").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ldb: %w: %s", err, lastLine(out))
	}
	return parsePairs(out, scanned)
}

// DumpTable returns the entries of one table as sst_dump reads them, with the checksums of the blocks verified;
// tombstones are left out. file must be called .sst.
func (r *RocksDB) DumpTable(file string) ([]Entry, error) {
	out, err := r.dump(file, "--command=scan", "--verify_checksum", "--output_hex")
	if err != nil {
		return nil, err
	}
	return parsePairs(out, dumped)
}

// VerifyTable has sst_dump verify every block of one table, those that the metaindex
// lists included. file must be called .sst. The build in Debian has assertions on, one of
// which fails on any metaindex key that is neither RocksDB's nor begins with "filter.".
func (r *RocksDB) VerifyTable(file string) error {
	_, err := r.dump(file, "--command=verify")
	return err
}

func (r *RocksDB) dump(file string, args ...string) ([]byte, error) {
	out, err := exec.Command(r.sstDump, append(args, "--file="+file)...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("sst_dump: %w: %s", err, lastLine(out))
	}
	for _, complaint := range []string{"Corruption", "not a valid SST file", "is corrupted"} {
		if i := bytes.Index(out, []byte(complaint)); i >= 0 {
			return nil, fmt.Errorf("sst_dump: %s", lastLine(out[i:]))
		}
	}
	return out, nil
}

var (
	// 0x6B : 0x76
	scanned = regexp.MustCompile(`^0x([0-9A-F]*) : 0x([0-9A-F]*)$`)
	// '6B' seq:1, type:1 => 76
	dumped = regexp.MustCompile(`^'([0-9A-F]*)' seq:[0-9]+, type:1 => ([0-9A-F]*)$`)
)

// parsePairs takes keys and values out of those lines of out that hold them.
func parsePairs(out []byte, line *regexp.Regexp) ([]Entry, error) {
	var entries []Entry
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		key, err := hex.DecodeString(m[1])
		if err != nil {
			return nil, err
		}
		value, err := hex.DecodeString(m[2])
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{key, value})
	}
	return entries, lines.Err()
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
