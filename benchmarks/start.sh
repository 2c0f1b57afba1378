# Called by the shared bench with PORT and UP; BENCH_PYTHON and STUDIO_DATA_DIR come from harness.py.
export STUDIO_OPENAI_COMPATIBLE_API_BASE="http://127.0.0.1:$UP/v1" STUDIO_OPENAI_COMPATIBLE_API_KEY=sk-bench
cd .. && exec "$BENCH_PYTHON" -c "import sys; from app.cli import main; sys.exit(main())" serve
