package dump

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// maxKeys bounds the total length of the rebuilt keys of a table, so that a crafted table cannot share
// a long key millions of times. The salvage of tables has the same bound.
func maxKeys(size int64) uint64 { return 64<<20 + 1024*uint64(max(size, 0)) }

// errKeys ends the decoding of a table whose keys exceed that bound.
var errKeys = errors.Sentinel("dump: the keys are too long in total")

// table decodes the footer, then the metaindex with the blocks that it lists, then the index, then the data blocks.
func (d *dumper) table() error {
	metaindex, index, ok, err := d.footer()
	if err != nil {
		return err
	}
	if !ok {
		return d.dataByChecksum()
	}
	err = d.parts(metaindex, index)
	if errors.Is(err, errKeys) {
		d.begin("lost bytes", 0, d.size)
		d.item.Fault = "the keys expand to more bytes than a table of this size can have; the remaining ones are not shown"
		return d.end()
	}
	return err
}

// parts decodes everything but the footer.
func (d *dumper) parts(metaindex, index codec.Handle) error {
	if err := d.metaindex(metaindex); err != nil {
		return err
	}
	blocks, sound, err := d.index(index)
	if err != nil {
		return err
	}
	for i := range blocks {
		if err := d.dataBlock(blocks[i]); err != nil {
			return err
		}
	}
	if !sound && len(blocks) == 0 {
		return d.dataByChecksum()
	}
	return nil
}

// footer decodes the footer; ok is false if it is damaged.
func (d *dumper) footer() (metaindex, index codec.Handle, ok bool, err error) {
	if d.size < codec.FooterLen {
		d.begin("footer", 0, d.size)
		d.item.Fault = fmt.Sprintf("the file has %d bytes; a table has %d or more", d.size, codec.FooterLen)
		return metaindex, index, false, d.end()
	}
	b := make([]byte, codec.FooterLen)
	at := d.size - codec.FooterLen
	if _, err := vfs.ReadFull(d.file, b, at); err != nil {
		return metaindex, index, false, err
	}
	foot, err := codec.DecodeFooter(b, uint64(d.size))
	metaindex, index, ok = foot.Metaindex, foot.Index, err == nil
	d.begin("footer", at, codec.FooterLen)
	if ok {
		d.handle("metaindex", metaindex).handle("index", index)
	}
	if ok && !zeroPadding(b) {
		d.item.Fault = "the bytes between the handles and the magic number are not zeros"
	}
	d.add("magic", fmt.Sprintf("%#016x", util.Fixed64(b[codec.FooterLen-8:])))
	if err := d.fault(err); err != nil {
		return metaindex, index, false, err
	}
	return metaindex, index, ok, d.end()
}

// zeroPadding reports whether only zeros follow the handles of a footer. Readers do not check that.
func zeroPadding(footer []byte) bool {
	_, rest, _ := codec.DecodeHandle(footer, handlePart)
	_, rest, _ = codec.DecodeHandle(rest, handlePart)
	return len(bytes.Trim(rest[:len(rest)-8], "\x00")) == 0
}

const handlePart = "block handle"

func (d *dumper) handle(name string, h codec.Handle) *dumper {
	return d.add(name+" offset", h.Offset).add(name+" size", h.Size)
}

// block reads a block and begins its item. It returns nil after emitting a block that cannot be read.
func (d *dumper) block(kind string, h codec.Handle) ([]byte, error) {
	stored, data, err := sstable.ReadBlock(d.file, uint64(d.size), h)
	d.begin(kind, int64(min(h.Offset, 1<<62)), int64(min(h.Size, 1<<62))+codec.BlockTrailerLen)
	if err != nil {
		if err := d.fault(err); err != nil {
			return nil, err
		}
		return nil, d.end()
	}
	d.add("compression", compressionName(sstable.Compression(stored[h.Size]))).add("decoded size", len(data))
	return data, nil
}

func compressionName(c sstable.Compression) string {
	switch c {
	case sstable.NoCompression:
		return "none"
	case sstable.Snappy:
		return "Snappy"
	case sstable.Zstd:
		return "Zstandard"
	}
	return fmt.Sprintf("kind %d", c)
}

// entries checks a block of entries, emits its item, and then calls fn with each entry that can be read.
func (d *dumper) entries(data []byte, fn func(key, value []byte) error) error {
	n := 0
	restarts, err := sstable.EachEntry(data, func(_, _ []byte) error { n++; return nil })
	d.add("entries", n).add("restart points", restarts)
	if err := d.fault(err); err != nil {
		return err
	}
	if err := d.end(); err != nil {
		return err
	}
	_, err = sstable.EachEntry(data, func(key, value []byte) error {
		if uint64(len(key)) > d.keyBudget {
			return errKeys
		}
		d.keyBudget -= uint64(len(key))
		return fn(key, value)
	})
	if base.IsUnreadable(err) {
		return nil // the block's item has the fault
	}
	return err
}

func (d *dumper) metaindex(h codec.Handle) error {
	data, err := d.block("metaindex block", h)
	if data == nil || err != nil {
		return err
	}
	type listed struct {
		name string
		codec.Handle
	}
	var blocks []listed
	err = d.entries(data, func(key, value []byte) error {
		at, rest, err := codec.DecodeHandle(value, handlePart)
		d.begin("metaindex entry", int64(h.Offset), int64(h.Size)).add("name", key)
		if err == nil {
			d.handle("block", at)
			if len(rest) > 0 {
				d.add("further bytes", rest)
			}
			blocks = append(blocks, listed{string(key), at})
		} else if err := d.fault(err); err != nil {
			return err
		}
		return d.end()
	})
	if err != nil {
		return err
	}
	budget := uint64(d.size) // a crafted metaindex could list one block many times
	for _, b := range blocks {
		if b.Size > budget {
			d.begin("metaindex entry", int64(h.Offset), int64(h.Size)).add("name", []byte(b.name))
			d.item.Fault = "the blocks of the metaindex have more bytes than the file; this one and later ones are not shown"
			return d.end()
		}
		budget -= b.Size
		if err := d.metaBlock(b.name, b.Handle); err != nil {
			return err
		}
	}
	return nil
}

// metaBlock decodes a block that the metaindex lists: properties or a filter.
func (d *dumper) metaBlock(name string, h codec.Handle) error {
	if bytes.HasSuffix([]byte(name), []byte("properties")) {
		data, err := d.block("properties block", h)
		if data == nil || err != nil {
			return err
		}
		return d.entries(data, func(key, value []byte) error {
			d.begin("property", int64(h.Offset), int64(h.Size)).add("name", key)
			if v, n := util.Uvarint64(value); n > 0 && n == len(value) {
				d.add("value", v)
			} else {
				d.add("value", value)
			}
			return d.end()
		})
	}
	kind := "filter block"
	if strings.HasPrefix(string(name), "filter.sievedb.required.") {
		kind = "block"
	}
	data, err := d.block(kind, h)
	if data == nil || err != nil {
		return err
	}
	d.add("name", []byte(name))
	if kind == "block" {
		return d.end()
	}
	if n := len(data); n >= sstable.FilterEnvelopeLen && !bytes.Contains([]byte(name), []byte("range")) {
		if array := util.Fixed32(data[n-5:]); uint64(array) <= uint64(n-5) && (n-5-int(array))%4 == 0 {
			d.add("filters", (n-5-int(array))/4).add("base lg", int(data[n-1])).add("filter bytes", int(array))
		}
	}
	return d.end()
}

// listedBlock is a data block in the index.
type listedBlock struct {
	codec.Handle
	number int
}

// index decodes the index. sound is false if it is damaged, entirely or from some entry on.
func (d *dumper) index(h codec.Handle) (blocks []listedBlock, sound bool, err error) {
	data, err := d.block("index block", h)
	if data == nil || err != nil {
		return nil, false, err
	}
	number, end, faults := 0, uint64(0), d.sum.Faults
	err = d.entries(data, func(key, value []byte) error {
		at, _, err := codec.DecodeHandle(value, handlePart)
		d.begin("index entry", int64(h.Offset), int64(h.Size)).add("block", number).internalKey("separator", key)
		switch {
		case err != nil:
			if err := d.fault(err); err != nil {
				return err
			}
		case at.Offset < end || at.Offset > uint64(d.size) || at.Size > uint64(d.size): // a crafted index could list one block many times
			d.handle("block", at)
			d.item.Fault = "the data block overlaps the one before it, or is not within the file"
		default:
			d.handle("block", at)
			blocks = append(blocks, listedBlock{at, number})
			end = at.End()
		}
		number++
		return d.end()
	})
	return blocks, d.sum.Faults == faults, err
}

func (d *dumper) dataBlock(b listedBlock) error {
	data, err := d.block("data block", b.Handle)
	if data == nil || err != nil {
		return err
	}
	d.add("block", b.number)
	return d.entries(data, func(ikey, value []byte) error {
		if !d.o.Entries {
			return nil
		}
		d.begin("entry", int64(b.Offset), int64(b.Size)).internalKey("key", ikey)
		if err := d.entryValue(ikey, value); err != nil {
			return err
		}
		return d.end()
	})
}

// entryValue adds the value of an entry, or what its reference to one says.
func (d *dumper) entryValue(ikey, value []byte) error {
	kind := base.KindSet
	if len(ikey) >= base.TrailerLen {
		_, kind = base.SplitTrailer(base.Trailer(ikey))
	}
	switch kind {
	case base.KindDelete:
	case base.KindRef:
		ref, err := base.DecodeValueRef(value)
		if err != nil {
			return d.fault(err)
		}
		d.add("values", ref.ID).add("sequence of the value", ref.Seq).add("bytes of the value", ref.Len)
	default:
		d.add("value", value)
	}
	return nil
}

// dataByChecksum finds data blocks without an index: they follow each other from the beginning of
// the file, and a block ends where its checksum matches.
func (d *dumper) dataByChecksum() error {
	size, buf := uint64(d.size), make([]byte, 64<<10)
	for at, number := uint64(0), 0; at < size; number++ {
		h, found, err := sstable.NextBlock(d.file, size, at, buf)
		if err != nil {
			return err
		}
		if !found {
			d.begin("lost bytes", int64(at), int64(size-at))
			d.item.Fault = "no block ends within these bytes: no checksum matches"
			return d.end()
		}
		if err := d.dataBlock(listedBlock{h, number}); err != nil {
			return err
		}
		at = h.End()
	}
	return nil
}
