package interop

import (
	"bufio"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/vfs/outfile"
)

// ErrUnavailable says that a program is not installed.
var ErrUnavailable = errors.New("interop: not installed")

//go:embed leveldb/driver.cc
var driverSource []byte

// BuildDriver compiles leveldb/driver.cc against the system's LevelDB into dir and returns the engine. The error wraps
// ErrUnavailable where there is no C++ compiler or no LevelDB to compile against.
func BuildDriver(dir string) (*LevelDB, error) {
	compiler, err := findCompiler()
	if err != nil {
		return nil, err
	}
	probe := exec.Command(compiler, "-x", "c++", "-E", "-o", os.DevNull, "-")
	probe.Stdin = strings.NewReader("#include <leveldb/db.h>\n")
	if probe.Run() != nil {
		return nil, fmt.Errorf("%w: LevelDB's headers (Debian: libleveldb-dev)", ErrUnavailable)
	}
	source := filepath.Join(dir, "driver.cc")
	if err := outfile.Write(source, driverSource, 0o600); err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "driver")
	build := exec.Command(compiler, "-std=c++14", "-O2", "-fno-rtti", "-o", program, source, "-lleveldb", "-pthread")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("interop: LevelDB's headers are there, but the driver does not build: %w\n%s", err, out)
	}
	return NewLevelDB(program), nil
}

func findCompiler() (string, error) {
	if runtime.GOOS == "windows" {
		return "", fmt.Errorf("%w: the driver needs a POSIX system", ErrUnavailable)
	}
	for _, name := range []string{os.Getenv("CXX"), "g++", "c++", "clang++"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: a C++ compiler (Debian: g++)", ErrUnavailable)
}

// LevelDB is the C++ library, run by a driver program.
type LevelDB struct{ program string }

// NewLevelDB returns the engine that the given build of leveldb/driver.cc serves.
func NewLevelDB(program string) *LevelDB { return &LevelDB{program} }

// Name returns "leveldb".
func (*LevelDB) Name() string { return "leveldb" }

// Open starts a driver, a process for each database, and opens dir in it.
func (e *LevelDB) Open(dir string, o Options) (DB, error) {
	d, err := e.OpenDriver(dir, o)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// OpenDriver is Open with the driver's own type.
func (e *LevelDB) OpenDriver(dir string, o Options) (*Driver, error) {
	d, err := e.start()
	if err != nil {
		return nil, err
	}
	d.dir = dir
	if _, err := d.call('O', encodeOptions(dir, o)); err != nil {
		return nil, errors.Join(err, d.end())
	}
	return d, nil
}

// Repair runs LevelDB's RepairDB on the closed database in dir.
func (e *LevelDB) Repair(dir string, o Options) error {
	d, err := e.start()
	if err != nil {
		return err
	}
	if _, err := d.call('V', encodeOptions(dir, o)); err != nil {
		return errors.Join(err, d.end())
	}
	return d.Close()
}

func (e *LevelDB) start() (*Driver, error) {
	d := &Driver{cmd: exec.Command(e.program)}
	d.driverView.d = d
	d.cmd.Stderr = os.Stderr
	var err error
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewReaderSize(out, 1<<16)
	return d, d.cmd.Start()
}

func encodeOptions(dir string, o Options) []byte {
	options := []string{"dir", dir, "create_if_missing", boolText(!o.MustExist)}
	add := func(name string, value string) { options = append(options, name, value) }
	addSize := func(name string, value int) {
		if value != 0 {
			add(name, strconv.Itoa(value))
		}
	}
	addSize("bloom_bits", o.BloomBits)
	addSize("write_buffer_size", o.WriteBufferSize)
	addSize("block_size", o.BlockSize)
	addSize("max_file_size", o.TableSize)
	if o.Compression != "" {
		add("compression", o.Compression)
	}
	if o.Paranoid {
		add("paranoid_checks", "1")
	}
	if o.ReuseLogs {
		add("reuse_logs", "1")
	}
	if o.NoBlockCache {
		add("block_cache_size", "0")
	}
	if o.HoldBackground {
		add("background", "held")
	}
	if o.Comparator != "" {
		add("comparator", o.Comparator)
		add("reverse", boolText(o.Reverse))
	}
	request := appendNumber(nil, len(options)/2)
	for _, s := range options {
		request = appendString(request, []byte(s))
	}
	return request
}

func boolText(b bool) string { return strconv.Itoa(int(appendBool(nil, b)[0])) }

// Driver is a database open in a driver process. The protocol is described in leveldb/driver.cc.
type Driver struct {
	driverView
	dir string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// call sends a request and returns the results of the reply.
func (d *Driver) call(operation byte, arguments []byte) (*reply, error) {
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(arguments)+1))
	frame = append(frame, operation)
	if _, err := d.in.Write(append(frame, arguments...)); err != nil {
		return nil, fmt.Errorf("interop: leveldb driver: %w", err)
	}
	var header [5]byte
	if _, err := io.ReadFull(d.out, header[:]); err != nil {
		return nil, fmt.Errorf("interop: the leveldb driver ended: %w", err)
	}
	results := make([]byte, binary.LittleEndian.Uint32(header[:])-1)
	if _, err := io.ReadFull(d.out, results); err != nil {
		return nil, fmt.Errorf("interop: the leveldb driver ended: %w", err)
	}
	if header[4] != 0 {
		return nil, fmt.Errorf("leveldb: %s", results)
	}
	return &reply{results}, nil
}

// end closes the pipes and waits for the process.
func (d *Driver) end() error {
	return errors.Join(d.in.Close(), d.cmd.Wait())
}

// Write applies one batch.
func (d *Driver) Write(ops []Op, sync bool) error {
	request := appendNumber(appendBool(nil, sync), len(ops))
	for _, op := range ops {
		if op.Delete {
			request = appendString(append(request, 0), op.Key)
		} else {
			request = appendString(appendString(append(request, 1), op.Key), op.Value)
		}
	}
	_, err := d.call('W', request)
	return err
}

// Snapshot takes a snapshot.
func (d *Driver) Snapshot() (Snapshot, error) {
	r, err := d.call('S', nil)
	if err != nil {
		return nil, err
	}
	return driverView{d, r.number()}, nil
}

// Flush makes tables of what is in memory: a compaction does that first, and
// there is nothing to do for it where no key is.
func (d *Driver) Flush() error {
	nowhere := make([]byte, 1<<17)
	for i := range nowhere {
		nowhere[i] = 0xff
	}
	return d.Compact(nowhere, nowhere)
}

// Compact merges the tables in [start, limit].
func (d *Driver) Compact(start, limit []byte) error {
	var request []byte
	for _, bound := range [][]byte{start, limit} {
		request = appendString(appendBool(request, bound != nil), bound)
	}
	_, err := d.call('C', request)
	return err
}

// Tables returns the number of tables of each level.
func (d *Driver) Tables() ([]int, error) {
	const levels = 7
	counts := make([]int, levels)
	for level := range counts {
		text, err := d.Property(fmt.Sprintf("leveldb.num-files-at-level%d", level))
		if err != nil {
			return nil, err
		}
		if counts[level], err = strconv.Atoi(text); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// Property returns a property of the database.
func (d *Driver) Property(name string) (string, error) {
	r, err := d.call('P', appendString(nil, []byte(name)))
	if err != nil {
		return "", err
	}
	return string(r.string()), nil
}

// TableReads returns the reads of tables since the last call.
func (d *Driver) TableReads() (uint64, error) {
	r, err := d.call('N', nil)
	if err != nil {
		return 0, err
	}
	return r.number64(), nil
}

// RunHeld runs the background work that Options.HoldBackground kept back.
func (d *Driver) RunHeld() error {
	_, err := d.call('B', nil)
	return err
}

// Close closes the database and ends the process.
func (d *Driver) Close() error {
	_, err := d.call('Q', nil)
	return errors.Join(err, d.end())
}

// Kill ends the process at once and copies what it left.
func (d *Driver) Kill(into string) error {
	frame := append(binary.LittleEndian.AppendUint32(nil, 1), 'X')
	if _, err := d.in.Write(frame); err != nil {
		return err
	}
	if err := d.end(); err != nil {
		return err
	}
	return CopyDir(into, d.dir)
}

// driverView is the present, snapshot 0, or a snapshot.
type driverView struct {
	d        *Driver
	snapshot uint32
}

func (v driverView) request() []byte { return binary.LittleEndian.AppendUint32(nil, v.snapshot) }

func (v driverView) Get(keys [][]byte) ([][]byte, error) {
	r, err := v.d.call('G', appendKeys(v.request(), keys))
	if err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	for i := range values {
		if r.byte() != 0 {
			values[i] = r.string()
		}
	}
	return values, nil
}

func (v driverView) Scan(backward bool) ([]Entry, error) {
	r, err := v.d.call('I', appendBool(v.request(), backward))
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, r.number())
	for i := range entries {
		entries[i].Key = r.string()
		entries[i].Value = r.string()
	}
	return entries, nil
}

func (v driverView) Seek(keys [][]byte) ([]*Entry, error) {
	r, err := v.d.call('K', appendKeys(v.request(), keys))
	if err != nil {
		return nil, err
	}
	entries := make([]*Entry, len(keys))
	for i := range entries {
		if r.byte() != 0 {
			entries[i] = &Entry{Key: r.string()}
			entries[i].Value = r.string()
		}
	}
	return entries, nil
}

func (v driverView) Release() error {
	_, err := v.d.call('R', v.request())
	return err
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendNumber(dst []byte, n int) []byte { return binary.LittleEndian.AppendUint32(dst, uint32(n)) }

func appendString(dst, s []byte) []byte { return append(appendNumber(dst, len(s)), s...) }

func appendKeys(dst []byte, keys [][]byte) []byte {
	dst = appendNumber(dst, len(keys))
	for _, key := range keys {
		dst = appendString(dst, key)
	}
	return dst
}

// reply takes results apart. A driver that sends less than it says is our own broken promise, so slicing may panic.
type reply struct{ rest []byte }

func (r *reply) take(n int) []byte {
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reply) byte() byte       { return r.take(1)[0] }
func (r *reply) number() uint32   { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reply) number64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reply) string() []byte   { return r.take(int(r.number())) }
