// Package mutation breaks one rule of the protocol at a time, so that it can be
// shown that the checks notice. It does so only in binaries built with the tag
// "mutations", which no release carries: without it On is constantly false and
// the compiler removes what hangs on it.
package mutation
