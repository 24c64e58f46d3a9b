package command

import (
	"math"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// overflow is what BITFIELD does with a number that does not fit.
type overflow byte

const (
	overflowWraps overflow = iota
	overflowSaturates
	overflowFails
)

// fieldOperation is one of those of BITFIELD.
type fieldOperation struct {
	name     string // get, set or incrby
	signed   bool
	width    uint // in bits
	offset   int64
	n        int64 // the argument of set and incrby
	overflow overflow
}

const errFieldType = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."

// setType parses a type such as i16 or u8.
func (o *fieldOperation) setType(t []byte) error {
	if len(t) > 1 && (t[0] == 'i' || t[0] == 'u') {
		n, ok := ParseInt(t[1:])
		o.signed, o.width = t[0] == 'i', uint(n)
		if ok && n >= 1 && n <= 63 || ok && n == 64 && o.signed {
			return nil
		}
	}
	return refusal(errFieldType)
}

// setOffset parses a position in bits, or, after #, in fields.
func (o *fieldOperation) setOffset(text []byte) error {
	unit := int64(1)
	if len(text) > 0 && text[0] == '#' {
		text, unit = text[1:], int64(o.width)
	}
	n, ok := ParseInt(text)
	if !ok || n < 0 || n > math.MaxInt64/unit || n*unit>>3 >= 512<<20 {
		return refusal(errBitOffset)
	}
	o.offset = n * unit
	return nil
}

// fieldArguments are how many arguments follow the name of an operation.
var fieldArguments = map[string]int{"get": 2, "set": 3, "incrby": 3, "overflow": 1}

var overflows = map[string]overflow{"wrap": overflowWraps, "sat": overflowSaturates, "fail": overflowFails}

func (c *Call) parseFieldOperations() (list []fieldOperation, err error) {
	mode := overflowWraps
	for i := 2; i < len(c.Args); {
		o := fieldOperation{name: string(lowerASCII(c.Args[i])), overflow: mode}
		n, known := fieldArguments[o.name]
		if !known || i+n >= len(c.Args) {
			return nil, refusal(errSyntax)
		}
		if o.name == "overflow" {
			var ok bool
			if mode, ok = overflows[string(lowerASCII(c.Args[i+1]))]; !ok {
				return nil, refusal("ERR Invalid OVERFLOW type specified")
			}
			i += 2
			continue
		}
		if err = o.setType(c.Args[i+1]); err == nil {
			err = o.setOffset(c.Args[i+2])
		}
		if err == nil && o.name != "get" {
			o.n, err = c.integer(i + 3)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, o)
		i += 1 + n
	}
	return list, nil
}

// load returns the field, of which the value may have only a part, or none: zeros follow it.
func (o *fieldOperation) load(data []byte) (field uint64) {
	for i := o.offset; i < o.offset+int64(o.width); i++ {
		field <<= 1
		if i>>3 < int64(len(data)) {
			field |= uint64(data[i>>3] >> (7 - uint(i&7)) & 1)
		}
	}
	return field
}

func (o *fieldOperation) store(data []byte, field uint64) {
	for i := o.offset + int64(o.width) - 1; i >= o.offset; i-- {
		shift := 7 - uint(i&7)
		data[i>>3] = data[i>>3]&^(1<<shift) | byte(field&1)<<shift
		field >>= 1
	}
}

// number returns the number that a field stands for.
func (o *fieldOperation) number(field uint64) int64 {
	if o.signed {
		return int64(field<<(64-o.width)) >> (64 - o.width)
	}
	return int64(field)
}

// bounds returns the least and the greatest number of a field.
func (o *fieldOperation) bounds() (least, greatest int64) {
	if o.signed {
		greatest = int64(uint64(1)<<(o.width-1) - 1)
		return -greatest - 1, greatest
	}
	return 0, int64(uint64(1)<<o.width - 1)
}

// sum returns base+n within the bounds of the field; fits is false if that needed a change.
func (o *fieldOperation) sum(base, n int64) (sum int64, fits bool) {
	least, greatest := o.bounds()
	limit := greatest
	switch over := n > 0 && base > math.MaxInt64-n; {
	case n < 0 && base < math.MinInt64-n:
		limit = least
	case !over && base+n < least:
		limit = least
	case !over && base+n <= greatest:
		return base + n, true
	}
	if o.overflow == overflowWraps {
		return o.number(uint64(base+n) & (math.MaxUint64 >> (64 - o.width))), false
	}
	return limit, false
}

// toSet returns what SET stores. Redis takes the number for an unsigned one if the field is unsigned.
func (o *fieldOperation) toSet() (n int64, fits bool) {
	if !o.signed && o.n < 0 {
		_, greatest := o.bounds()
		if o.overflow == overflowWraps {
			return o.number(uint64(o.n) & (math.MaxUint64 >> (64 - o.width))), false
		}
		return greatest, false
	}
	return o.sum(o.n, 0)
}

// apply evaluates an operation that writes, and replies with its result.
func (o *fieldOperation) apply(p *Reply, data []byte) (changed bool) {
	old := o.number(o.load(data))
	var stored, result int64
	var fits bool
	if o.name == "set" {
		stored, fits = o.toSet()
		result = old
	} else {
		stored, fits = o.sum(old, o.n)
		result = stored
	}
	if !fits && o.overflow == overflowFails {
		p.Null()
		return false
	}
	p.Int(result)
	o.store(data, uint64(stored))
	return stored != old
}

// fieldsEnd returns how many bytes a value needs for the operations that write; 0 if there are none.
func fieldsEnd(list []fieldOperation) (length int64) {
	for _, o := range list {
		if o.name != "get" {
			length = max(length, (o.offset+int64(o.width)-1)>>3+1)
		}
	}
	return length
}

func bitfield(c *Call, tx kv.Tx) error {
	list, err := c.parseFieldOperations()
	if err != nil {
		return err
	}
	length := fieldsEnd(list)
	if length > int64(c.Limits.MaxValue) {
		return refusal(errTooLong)
	}
	v, _, err := tx.Get(c.Args[1])
	if err != nil {
		return err
	}
	data, changed := v.Data, length > int64(len(v.Data))
	if length > 0 {
		data = make([]byte, max(len(v.Data), int(length)))
		copy(data, v.Data)
	}
	c.Reply.Array(len(list))
	for i := range list {
		if list[i].name == "get" {
			c.Reply.Int(list[i].number(list[i].load(data)))
		} else if list[i].apply(c.Reply, data) {
			changed = true
		}
	}
	if changed {
		tx.Put(c.Args[1], kv.Value{Data: data, ExpireAt: v.ExpireAt})
	}
	return nil
}

func bitfieldReadOnly(c *Call, r kv.Reader) error {
	list, err := c.parseFieldOperations()
	if err != nil {
		return err
	}
	if fieldsEnd(list) > 0 {
		return refusal("ERR BITFIELD_RO only supports the GET subcommand")
	}
	v, _, err := r.Get(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Array(len(list))
	for i := range list {
		c.Reply.Int(list[i].number(list[i].load(v.Data)))
	}
	return nil
}
