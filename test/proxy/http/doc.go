// Package httpproxy is a proxy before an HTTP server that can hold, drop, cut,
// delay, repeat and rewrite single requests, and the answers to them, by method,
// path and query: the n-th CompleteMultipartUpload of a store, the answer to a
// partner's call. So a request never arrives, or it is carried out and its answer
// is lost, breaks off half way, comes late or says something else.
//
// Each request is read whole, and goes to the server on a connection of its own and
// once: what repeats is the client. It speaks HTTP/1.1 without TLS, and keeps the
// Host that the client has signed. Only tests import it.
package httpproxy
