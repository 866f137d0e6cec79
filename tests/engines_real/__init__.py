"""Real SGLang and real vLLM on a processor, from the deployment file to a verified answer."""
