#!/bin/sh
# Made the files in this folder, on two cores without a GPU: a few hours. Needs SEN2PRO_DATA; goes on where it was stopped.
# The last model is all-mpnet-base-v2; its folder can be given as the first argument.
set -e
cd "$(dirname "$0")"
sen2pro reproduce T2 T4 T6 T8 T9 T10 F1 F3 F4 Th1 Th2 --output all-MiniLM-L6-v2
sen2pro reproduce T3 --limit 500 --output all-MiniLM-L6-v2
sen2pro reproduce F2 --limit 200 --output all-MiniLM-L6-v2
sen2pro reproduce T5 --limit 50 --output all-MiniLM-L6-v2
sen2pro reproduce T1 --shots 10 --shots 200 --shots full --seeds 3 --output all-MiniLM-L6-v2-one-pass
sen2pro reproduce T7 --shots 10 --shots 200 --seeds 3 --output all-MiniLM-L6-v2-one-pass
sen2pro reproduce T1 T7 --shots 10 --seeds 3 --output all-MiniLM-L6-v2-ten
sen2pro reproduce T1 --shots 10 --seeds 2 --finetune --setfit --output all-MiniLM-L6-v2-trained
sen2pro reproduce T2 T3 T4 T6 T9 T11 --method one-pass --output all-MiniLM-L6-v2-one-pass
sen2pro reproduce contests --method one-pass --output all-MiniLM-L6-v2-one-pass  # C1 to C5
sen2pro reproduce T2 --limit 60 --model "${1:-all-mpnet-base-v2}" --output all-mpnet-base-v2
rm -f */report.md  # the page of all folders takes its place
python page.py
