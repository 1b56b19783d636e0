/** The looks of a report: the colours of the pictures, for light and for dark ground. */
import { darkStyle, INK, MUTED, PAPER, PIXEL_STYLE, RULE, SERIES } from '../palette.js';
import { PICTURE_STYLE } from './html.js';

const COLORS = { paper: PAPER, ink: INK, muted: MUTED, rule: RULE } as const;

const variables = (scheme: 'light' | 'dark'): string =>
  Object.entries(COLORS)
    .map(([name, color]) => `--${name}:${color[scheme]}`)
    .join(';');

/** @param html what is drawn on the page, with the colours that it has */
export const styleOf = (html: string): string =>
  [
    `:root{color-scheme:light dark;${variables('light')};--link:${SERIES[0]!.light};--card:#f6f8fa}`,
    `@media (prefers-color-scheme:dark){:root{${variables('dark')};--link:#6fa6d6;--card:#24262b}}`,
    '*{box-sizing:border-box}',
    'html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}',
    'body{margin:0 auto;max-width:1120px;padding:0 20px 48px;background:var(--paper);color:var(--ink);font:16px/1.6 system-ui,sans-serif}',
    'header{padding:32px 0 4px}h1{margin:0;font-size:clamp(24px,5vw,34px);line-height:1.2;overflow-wrap:anywhere}',
    'header p,footer,caption,dt{color:var(--muted)}header p{margin:6px 0 0;overflow-wrap:anywhere}',
    'nav{display:flex;flex-wrap:wrap;gap:4px 16px;padding:12px 0;border-bottom:1px solid var(--rule)}',
    'a{color:var(--link);text-underline-offset:3px}:focus-visible{outline:2px solid var(--link);outline-offset:2px}',
    'h2{margin:40px 0 12px;font-size:22px;line-height:1.3}h3{margin:24px 0 8px;font-size:16px}p{margin:0 0 12px;max-width:70ch}',
    '.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:20px 0 0;padding:0;list-style:none}',
    '.cards li{padding:14px 16px;border-radius:10px;background:var(--card)}.cards strong{display:block;font-size:24px;line-height:1.25;font-variant-numeric:tabular-nums}.cards span{color:var(--muted);font-size:14px}',
    'main{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 40px;grid-auto-flow:row dense}section{grid-column:1/-1;min-width:0}section.half{grid-column:auto}@media (max-width:820px){section.half{grid-column:1/-1}}',
    '.pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,320px),1fr));gap:24px 40px;align-items:start}figure{margin:0}',
    'dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr));gap:0 32px;margin:0}dl div{display:flex;justify-content:space-between;gap:16px;padding:6px 0;border-bottom:1px solid var(--rule)}dt{flex:none}dd{margin:0;text-align:right;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}',
    '.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:15px}caption{text-align:left;padding-bottom:6px;font-size:14px}',
    'th,td{padding:5px 14px 5px 0;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}th:first-child{text-align:left;font-weight:500}thead th{color:var(--muted);font-weight:500}',
    'pre{margin:0;padding:14px 16px;border-radius:10px;background:var(--card);font:13px/1.5 ui-monospace,monospace;width:max-content;min-width:100%}code{font-family:ui-monospace,monospace;font-size:.92em}',
    'footer{margin-top:48px;border-top:1px solid var(--rule);padding-top:12px;font-size:14px}',
    '@media (max-width:480px){th,td{padding-right:8px}table{font-size:14px}}',
    '@media print{nav{display:none}section{break-inside:avoid}}',
    PICTURE_STYLE,
    darkStyle(html),
    PIXEL_STYLE,
  ].join('\n');
