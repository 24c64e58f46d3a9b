package command

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

func TestAConditionDecidesWhatSetStoresAndWhatIsDeleted(t *testing.T) {
	const (
		digest = "b6acb9d84a38ff74" // of "Hello world", in Redis's documentation of DIGEST
		other  = "b6acb9d84a38ff75"
		usage  = "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"
		length = "-ERR the digest must be exactly 16 hexadecimal characters"
	)
	n := kvtest.New(1)
	evaluate(t, n, false, "set", "h", "Hello world")
	runSteps(t, n,
		"digest h", "$16\r\n"+digest, "digest absent", "$-1", "set k a", "+OK",
		"set k b IFEQ x", "$-1", "set k b ifeq a", "+OK", "set k c ifne b", "$-1", "set k c ifne x px 5000", "+OK",
		"set k d ifeq c keepttl get", "$1\r\nc", "set k e ifeq x get", "$1\r\nd", "pttl k", ":5000",
		"set new v ifeq v", "$-1", "set new v ifdeq "+digest, "$-1", "set new v ifne v", "+OK", "set new2 v ifdne "+digest, "+OK",
		"set h 1 ifdeq "+other, "$-1", "set h 1 ifdne "+strings.ToUpper(digest), "$-1", "delex h ifdeq "+other, ":0",
		"delex h ifdne "+digest, ":0", "delex h ifdeq "+strings.ToUpper(digest), ":1", "exists h", ":0",
		"set k v nx ifeq d", "-"+errSyntax, "set k v ifeq d xx", "-"+errSyntax, "set k v ifeq d ifeq d", "-"+errSyntax,
		"set k v ifeq", "-"+errSyntax, "set k v ifdeq 12", length, "delex k ifdeq 12", length,
		"delex k ifdeq "+strings.Repeat("x", 16), length, "delex k if d", usage, "delex k ifeq", "-"+WrongArity("delex"),
		"delex k ifeq x", ":0", "delex k ifne d", ":0", "delex k ifeq d", ":1", "delex k ifeq d", ":0", "delex k ifne d", ":0",
		"delex new", ":1", "delifeq new2 w", ":0", "delifeq new2 v", ":1", "delifeq new2 v", ":0",
		"set ifeq ifeq ifne ifeq", "+OK", "set ifeq nx ifeq ifeq", "+OK", "get ifeq", "$2\r\nnx",
		"once 1 delex ifeq ifeq nx", ":1", "once 1 delex ifeq ifeq nx", ":1",
	)
}

func TestTheScriptsOfLocksAreEvaluated(t *testing.T) {
	const (
		simple     = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`
		redsync    = "evalsha e950836ed1e694540c503ef9972b8de518044d3b 1 k "
		oldRedsync = "evalsha 00583931c4e4d483f6233879c133c71ed5393f9d 1 k "
		prolong    = "EVALSHA D75BB8B5BD13532DDEDD17762E772346E39B321E 1 k "
		redisPy    = "evalsha c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k "
		reacquire  = "evalsha 1cac51482acf5858da00f6d685d68f886cd6b6b2 1 k "
		extend     = "evalsha a4e8783852e6b949f9ef3a97212805108459a890 1 k "
	)
	n := kvtest.New(1)
	runSteps(t, n,
		redsync+"v", ":-1", redisPy+"v", ":0", "set k v px 1000", "+OK", redsync+"w", ":0", redisPy+"w", ":0", prolong+"w 5", ":0",
		prolong+"v 2000", ":1", "pttl k", ":2000", reacquire+"v 3000", ":1", "pttl k", ":3000", reacquire+"v", "-"+WrongArity("pexpire"),
		extend+"v 500 0", ":1", "pttl k", ":3500", extend+"v 500 1", ":1", "pttl k", ":500", extend+"w 500 0", ":0",
		extend+"v x 0", "-"+errInteger, extend+"v "+strconv.Itoa(math.MaxInt64)+" 0", "-ERR invalid expire time in 'pexpire' command",
		"persist k", ":1", extend+"v 500 0", ":0", redisPy+"v", ":1", "exists k", ":0", "set k v", "+OK",
		"once 1 "+redsync+"v", ":1", "set k v", "+OK", "once 1 "+redsync+"v", ":1", "get k", "$1\r\nv",
		"evalsha 0000 1 k v", "-"+errNoScript, "eval return 1 k v", "-"+errNoScripts, redisPy[:len(redisPy)-5]+" 2 k v", "-"+errScriptKey,
		redisPy, "-"+errScriptKey,
		"set k v", "+OK", oldRedsync+"w", ":0", oldRedsync+"v", ":1", oldRedsync+"v", ":0", "set k v", "+OK",
	)
	require.Equal(t, ":0\r\n", evaluate(t, n, false, "eval", simple, "1", "k", "w"))
	require.Equal(t, ":1\r\n", evaluate(t, n, false, "eval", simple, "1", "k", "v"))
	require.Equal(t, ":0\r\n", evaluate(t, n, false, "eval", simple, "1", "k", "v"))
	require.Equal(t, "-"+errNoScripts, evaluate(t, n, false, "eval", simple+" ", "1", "k", "v"))
	require.Equal(t, "scripting", commands["evalsha"].Group)
}
