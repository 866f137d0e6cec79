"""A server that behaves like SGLang, vLLM or llama.cpp, and breaks what it is told to.

For the tests of Stoker and for everybody's own (`stoker dev fake-engine`): correct by default, with
a scripted model, true timing of its tokens, and one switch for each promise that can be broken.
"""
